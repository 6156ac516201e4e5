// Package config says how a server is set up: by flags, else by the environment,
// else by one YAML file, else by the defaults that are written down here.
//
// The file is read strictly. A key that is not known and a value that cannot be
// used are refused with the line they stand on, and with what would be right.
package config

// Package imports holds the map of who may import whom, and the test that reads it.
package imports

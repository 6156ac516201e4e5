package app

// Version is set by the build; "dev" where it is not.
var Version = "dev"

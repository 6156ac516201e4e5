package domain

import (
	"errors"
	"fmt"
)

// Code is the kind of a failure, as a caller may know it. Each wire maps codes
// to its own numbers in one table.
type Code string

// The codes. Their texts are part of the product: scripts may compare them.
const (
	Invalid      Code = "invalid"      // an argument is wrong; the message names it and what would be right
	NotFound     Code = "not_found"    // there is no such thing for this caller; foreign looks the same
	Conflict     Code = "conflict"     // the thing exists already, or its state does not allow this
	Unauthorized Code = "unauthorized" // no token, or one that is not valid
	Forbidden    Code = "forbidden"    // the token's scopes do not reach this
	TooLarge     Code = "too_large"    // a bound named in the message is exceeded
	Unsupported  Code = "unsupported"  // understood, and not offered by this build or this kernel
	Unavailable  Code = "unavailable"  // cannot be done now; the same call may succeed later
	Internal     Code = "internal"     // a fault of ours; the cause is for the operator alone
)

// Error is a failure that a caller may read. Message carries no internals; the
// cause, if there is one, is for logs and errors.Is.
type Error struct {
	Code    Code
	Message string
	// Field is the argument the error is about, where it is about one.
	Field string
	cause error
}

// Error gives the message alone: it is what callers are shown.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.cause }

// Errorf makes an Error. A %w in the format keeps its operand as the cause,
// with its text in the message; use Wrap to keep a cause out of the message.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// InvalidField makes an Invalid error about one argument.
func InvalidField(field, format string, args ...any) *Error {
	return &Error{Code: Invalid, Field: field, Message: field + ": " + fmt.Sprintf(format, args...)}
}

// Wrap makes an Error whose cause callers do not see.
func Wrap(code Code, cause error, message string) *Error {
	return &Error{Code: code, Message: message, cause: cause}
}

// CodeOf gives the code of the first Error in err's chain, Internal where there
// is none, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

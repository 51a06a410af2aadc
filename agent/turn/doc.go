// Package turn decides whose turn it is in a spoken conversation.
package turn

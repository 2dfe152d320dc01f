// Package hadooprpc speaks Hadoop RPC, protocol version 9: to a NameNode and a
// Resource Manager as their nodes do, and as a node where the Resource Manager
// calls back.
//
// A connection opens with a preamble and, if there is a token, a SASL
// login (DIGEST-MD5); then comes its context, which names the user and the
// protocol. After that both sides send frames: a length of four bytes, and
// messages in it each behind its own length as a varint. A call and its reply
// have a number in common, so replies may come in any order.
//
// Messages are made from a descriptor set at run time. Their leaves have the
// form of the recordings: original field names, only fields that are set,
// enums by name, bytes as text where they are printable and as base64: where
// not, unsigned numbers as such.
package hadooprpc

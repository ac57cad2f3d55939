// Package top measures the processor time of "ares top" with 1,000 nodes.
package top

// Package quota holds limits and quotas against many who submit at once: real
// servers on a real etcd, and every revision of the store looked at.
package quota

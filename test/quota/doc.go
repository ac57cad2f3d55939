// Package quota holds limits, quotas and rates against many who call at once: real
// servers on a real etcd, with a real Redis beside them, and every revision of the
// store looked at.
package quota

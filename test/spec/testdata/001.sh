# etcd on port 2379, in place of the container ares-etcd.
start_etcd

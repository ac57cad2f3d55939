// Package openb replays a placement experiment on Alibaba's openb trace. The
// experiment is from "Beware of Fragmentation" (Weng and others, USENIX ATC
// 2023). Jobs arrive one by one, never end, and are dropped when they do not
// fit. The load is the number of GPUs that the arrived jobs have requested, in
// percent of all GPUs. For each policy, the benchmark prints the percentage of
// allocated GPUs at a load of 100 % and of 130 %. Next to these results, the
// benchmark prints the figures that the authors published. The paper also
// contains results for some of these policies. They show whether the replay is
// faithful. The variable ARES_TRACES names the directory of the traces.
package openb

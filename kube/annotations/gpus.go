package annotations

import (
	"fmt"

	"github.com/ares-scheduler/ares"
)

// GPUs returns the number of GPUs that each pod of a workload uses. The argument perPod is the sum of the GPU limits of
// one pod, or 0 if it has none. The argument `pods` is the number of pods that run at the same time.
//
// The annotation gpu-count may be the number of the whole workload or that of one pod. The GPU limits tell which of the
// two it is. Without limits it is that of the workload, and is divided by the pods.
func GPUs(request Request, perPod, pods int) (int, error) {
	pods = max(pods, 1)
	n := request.GPUs
	wrong := func(format string, args ...any) (int, error) {
		return 0, ares.Errorf(ares.Invalid, "%s: %s", GPUCount, fmt.Sprintf(format, args...)).At(GPUCount)
	}
	switch {
	case n == 0, n == perPod:
		return perPod, nil
	case perPod == 0 && n%pods == 0:
		return n / pods, nil
	case perPod == 0:
		below, above := n-n%pods, n-n%pods+pods
		if below == 0 {
			return wrong("%d GPUs cannot be divided among %d pods: write \"%d\", or set the GPU limit of one pod", n, pods, above)
		}
		return wrong("%d GPUs cannot be divided among %d pods: write \"%d\" or \"%d\", or set the GPU limit of one pod", n, pods, below, above)
	case n%pods == 0 && n/pods == perPod:
		return perPod, nil
	case pods == 1:
		return wrong("\"%d\" differs from the GPU limits of the pod, which are %d: write \"%d\", or change the limits", n, perPod, perPod)
	}
	return wrong("\"%d\" agrees neither with the GPU limits of one pod, which are %d, nor with those of all %d pods: write \"%d\" or \"%d\", or change the limits", n, perPod, pods, perPod, perPod*pods)
}

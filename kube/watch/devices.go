package watch

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// devicesInUse returns the IDs of the GPUs that the kubelet chose for a pod, sorted, or nil as long as it does not say all of
// them. With a device plugin, only the kubelet knows them. It says nothing of the GPUs of init containers.
func devicesInUse(p *v1.Pod) []string {
	var ids []string
	for i := range p.Status.ContainerStatuses {
		for _, r := range p.Status.ContainerStatuses[i].AllocatedResourcesStatus {
			if r.Name != GPUResource {
				continue
			}
			for _, device := range r.Resources {
				ids = append(ids, string(device.ResourceID))
			}
		}
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) != gpus(p) {
		return nil
	}
	return ids
}

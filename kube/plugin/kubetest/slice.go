package kubetest

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GPUDriver is the driver of the devices in a GPUSlice, and the name of their DeviceClass.
const GPUDriver = "gpu.nvidia.com"

// GPUClass returns the DeviceClass of the devices in a GPUSlice.
func GPUClass() *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: GPUDriver},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q && device.attributes[%q].type == 'gpu'", GPUDriver, GPUDriver),
		}}}},
	}
}

// GPUSlice returns a ResourceSlice with GPUs of a node, in a pool of its own. Their names are gpu-0, gpu-1 and so on, from
// the given number. Half of them are on each of two NUMA nodes.
func GPUSlice(node string, first, count int, product, memory string) *resourceapi.ResourceSlice {
	pool := fmt.Sprintf("%s-%d", node, first)
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: pool + "-gpus"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: GPUDriver, NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range count {
		number := first + i
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", number),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"type":                            {StringValue: new("gpu")},
				"productName":                     {StringValue: &product},
				"uuid":                            {StringValue: new(fmt.Sprintf("GPU-%s-%d", node, number))},
				"resource.kubernetes.io/numaNode": {IntValue: new(int64(i * 2 / count))},
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(memory)}},
		})
	}
	return s
}

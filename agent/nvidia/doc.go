// Package nvidia describes the NVIDIA GPUs of a node for containers, so that a node needs no nvidia-ctk. The description is a CDI
// specification with the device file of each GPU, the device files that all of them share, and the libraries of the driver.
package nvidia

// Package planner decides which pod goes to which node of a Kubernetes cluster, and with which GPUs. It owns a state of
// the engine, which it builds from the pods and nodes of the API server alone: there is no other store, and a restart
// loses nothing that matters.
//
// The planner works in units. A unit is a set of pods that the engine places together as one job: all pods of a gang, or
// pods that replace lost ones of a gang, or a single pod. A cycle turns events into records of the engine, lets the
// engine decide, and notes an Assignment for each pod of a placed unit. The framework of the Kubernetes scheduler then
// carries the assignments out; package kube/plugin connects the two.
//
//	SetPod, DeletePod, SetNode, DeleteNode   what happened in the cluster
//	Cycle                                    one decision
//	Assignment, Arrive, Reject, Failed       what the framework asks and reports for one pod
//	WaitingReasons                           why the other pods wait
//
// A Planner is safe for concurrent use. It uses no clock: the time is an argument.
package planner

package main

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetcontrollers "sigs.k8s.io/jobset/pkg/controllers"
	jobsetwebhooks "sigs.k8s.io/jobset/pkg/webhooks"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"
	lwscontrollers "sigs.k8s.io/lws/pkg/controllers"
	lwswebhooks "sigs.k8s.io/lws/pkg/webhooks"
)

var jobSet = project{
	name: "jobset", register: jobsetv1alpha2.AddToScheme, setup: setupJobSet,
	kind: kind{"jobset.x-k8s.io", "v1alpha2", "jobsets", "jobset", jobsetv1alpha2.JobSetNameKey},
}

func setupJobSet(ctx context.Context, m ctrl.Manager) error {
	return errors.Join(
		jobsetcontrollers.SetupJobSetIndexes(ctx, m.GetFieldIndexer()),
		jobsetcontrollers.SetupPodIndexes(ctx, m.GetFieldIndexer()),
		jobsetcontrollers.NewJobSetReconciler(m.GetClient(), m.GetScheme(), m.GetEventRecorder("jobset")).SetupWithManager(m),
		jobsetcontrollers.NewPodReconciler(m.GetClient(), m.GetScheme(), m.GetEventRecorder("pod")).SetupWithManager(m),
		jobsetwebhooks.Setup(m),
	)
}

var leaderWorkerSet = project{
	name: "leaderworkerset", register: lwsv1.AddToScheme, setup: setupLeaderWorkerSet,
	kind: kind{"leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "leaderworkerset", lwsv1.SetNameLabelKey},
}

func setupLeaderWorkerSet(_ context.Context, m ctrl.Manager) error {
	return errors.Join(
		lwscontrollers.SetupIndexes(m.GetFieldIndexer()),
		lwscontrollers.NewLeaderWorkerSetReconciler(m.GetClient(), m.GetScheme(), m.GetEventRecorder("leaderworkerset")).SetupWithManager(m),
		lwscontrollers.NewPodReconciler(m.GetClient(), m.GetScheme(), m.GetEventRecorder("leaderworkerset"), nil).SetupWithManager(m),
		lwswebhooks.SetupLeaderWorkerSetWebhook(m),
		lwswebhooks.NewPodWebhook(nil).Setup(m),
	)
}

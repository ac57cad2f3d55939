// Package whole writes objects whole or not at all. The functions of gocloud.dev/blob keep a part of an object if the write fails, for example
// on a full disk, and readers of a directory would take it for the object.
package whole

import (
	"context"

	"gocloud.dev/blob"
)

// Write stores an object, or replaces it. After an error, the object is as before.
func Write(ctx context.Context, b *blob.Bucket, key string, data []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := b.NewWriter(ctx, key, &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return err
	}
	if _, err = w.Write(data); err != nil {
		cancel() // now Close drops what was written
		_ = w.Close()
		return err
	}
	return w.Close()
}

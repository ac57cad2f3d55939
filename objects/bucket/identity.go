package bucket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// IdentityFile is the object that contains the ID of its place. Its name is no generation, and no tenant's.
const IdentityFile = "ares-objects-id"

// Identity returns the ID of the place. The first server that asks for it draws it.
func (b *Bucket) Identity(ctx context.Context) (string, error) {
	id, err := b.readIdentity(ctx)
	if gcerrors.Code(err) != gcerrors.NotFound {
		return id, err
	}
	// Several servers may draw an ID at the same time, and one of them succeeds.
	if err = b.drawIdentity(ctx, rand.Text()+"\n"); err != nil {
		return "", b.Problem("name the place for objects", err)
	}
	return b.readIdentity(ctx)
}

// drawIdentity stores an ID if there is none.
func (b *Bucket) drawIdentity(ctx context.Context, id string) error {
	if b.place.URL != nil {
		err := b.WriteAll(ctx, IdentityFile, []byte(id), &blob.WriterOptions{IfNotExist: true, ContentType: "text/plain"})
		if gcerrors.Code(err) == gcerrors.FailedPrecondition {
			return nil
		}
		return err
	}
	// A link to a complete file succeeds for one server, also on NFS.
	f, err := os.CreateTemp(b.place.Dir, "."+IdentityFile+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(id)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Link(f.Name(), filepath.Join(b.place.Dir, IdentityFile)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (b *Bucket) readIdentity(ctx context.Context) (string, error) {
	data, err := b.ReadAll(ctx, IdentityFile)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return "", err
	}
	if err != nil {
		return "", b.Problem("read "+IdentityFile, err)
	}
	id := strings.TrimSpace(string(data))
	if id == "" || len(id) > 100 {
		return "", fmt.Errorf("%s in %s is damaged: remove it, and start the server again", IdentityFile, b.place)
	}
	return id, nil
}

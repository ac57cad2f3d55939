package logs

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
)

// A pack is: magic, the length of the index, the CRC-32C of the index, the index (apipb.LogPack), and the pieces.
const (
	magic      = "ARESLOG1"
	headerSize = int64(len(magic) + 8)
	// maxIndex is the largest index that is read. A pack is closed long before.
	maxIndex = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodePack returns a pack with logs. It reports whether the pack has any output.
func encodePack(logs []*apipb.StoredLog) (pack []byte, hasOutput bool, err error) {
	index := &apipb.LogPack{}
	var body []byte
	for _, l := range logs {
		packed := &apipb.PackedLog{JobId: l.GetSeat().GetJobId(), Fence: l.GetSeat().GetFence(), Rank: l.GetSeat().GetRank()}
		for _, f := range l.GetFiles() {
			file := &apipb.PackedFile{Start: f.GetStart(), Size: f.GetSize(), ChangedAt: f.GetChangedAt().AsTime().UnixNano()}
			for _, p := range f.GetPieces() {
				at := int64(len(body))
				body = append(append(body, p.GetData()...), p.GetTimes()...)
				file.Pieces = append(file.Pieces, &apipb.PackedPiece{
					Offset: p.GetOffset(), Size: p.GetSize(), Position: at, Length: int32(len(p.GetData())), TimesLength: int32(len(p.GetTimes())),
					Checksum: crc32.Checksum(body[at:], castagnoli),
				})
			}
			packed.Files = append(packed.Files, file)
		}
		index.Logs = append(index.Logs, packed)
	}
	encoded, err := proto.Marshal(index)
	if err != nil {
		return nil, false, err
	}
	pack = append(pack, magic...)
	pack = binary.LittleEndian.AppendUint32(pack, uint32(len(encoded)))
	pack = binary.LittleEndian.AppendUint32(pack, crc32.Checksum(encoded, castagnoli))
	return append(append(pack, encoded...), body...), len(body) > 0, nil
}

var errDamaged = errors.New("it is damaged")

// parseHeader returns the length of the index and its checksum.
func parseHeader(b []byte) (length int64, checksum uint32, err error) {
	if int64(len(b)) != headerSize || string(b[:len(magic)]) != magic {
		return 0, 0, errDamaged
	}
	length = int64(binary.LittleEndian.Uint32(b[len(magic):]))
	if length > maxIndex {
		return 0, 0, errDamaged
	}
	return length, binary.LittleEndian.Uint32(b[len(magic)+4:]), nil
}

func parseIndex(b []byte, checksum uint32) (*apipb.LogPack, error) {
	index := &apipb.LogPack{}
	if crc32.Checksum(b, castagnoli) != checksum || proto.Unmarshal(b, index) != nil {
		return nil, errDamaged
	}
	return index, nil
}

// A packName is what the key of a pack says.
type packName struct {
	tenant   string
	hour     int64 // of the placement, since the Unix epoch
	min, max int64 // fences
	uploaded time.Time
}

// hourOf returns the hour of a placement.
func hourOf(placed time.Time) int64 { return placed.Unix() / 3600 }

// dirOf returns the beginning of the keys of a tenant's packs of one hour.
func dirOf(tenant string, hour int64) string { return fmt.Sprintf("%s/%010d/", tenant, hour) }

// key returns a key that no other pack has.
func (n *packName) key() string {
	return fmt.Sprintf("%s%019d-%019d-%013d-%s", dirOf(n.tenant, n.hour), n.min, n.max, n.uploaded.UnixMilli(), strings.ToLower(rand.Text()[:12]))
}

// parseKey reverses the method `key`. It returns false for what is no pack.
func parseKey(key string) (n packName, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 3 {
		return n, false
	}
	words := strings.Split(parts[2], "-")
	if len(words) != 4 {
		return n, false
	}
	var numbers [4]int64
	for i, word := range []string{parts[1], words[0], words[1], words[2]} {
		v, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return n, false
		}
		numbers[i] = v
	}
	return packName{tenant: parts[0], hour: numbers[0], min: numbers[1], max: numbers[2], uploaded: time.UnixMilli(numbers[3])}, true
}

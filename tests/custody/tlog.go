// Reads and writes transparency logs by way of golang.org/x/mod/sumdb alone, which shares no code with
// this project: note (signed notes) and tlog (Merkle tree, proofs, tiles).
//
//	tlog check VKEY DIR PROOF...   checks tiles, entries, every inclusion, every growth, and the proofs
//	tlog make ORIGIN DIR SIZE OLD  writes such a folder, a proof of each entry, and one of growth from OLD
//
// C2SP tlog-tiles differs from sumdb in two things, adapted here: a path names no height, since it is
// always 8, and an entry bundle holds each entry behind its length in 16 bits.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const height = 8

func main() {
	log.SetFlags(0)
	if os.Args[1] == "make" {
		makeLog(os.Args[2], os.Args[3], number(os.Args[4]), number(os.Args[5]))
		return
	}
	verifier := must(note.NewVerifier(os.Args[2]))
	dir := os.Args[3]
	origin, tree := openCheckpoint(read(filepath.Join(dir, "checkpoint")), verifier)
	reader := tlog.TileHashReader(tree, tiles(dir))
	entries := readEntries(dir, tree.N)
	for n, entry := range entries {
		proof := must(tlog.ProveRecord(tree.N, int64(n), reader))
		check(tlog.CheckRecord(proof, tree.N, tree.Hash, int64(n), tlog.RecordHash(entry)))
	}
	for n := int64(1); n <= tree.N; n++ {
		old := must(tlog.TreeHash(n, reader))
		check(tlog.CheckTree(must(tlog.ProveTree(tree.N, n, reader)), tree.N, tree.Hash, n, old))
	}
	for _, path := range os.Args[4:] {
		checkProof(read(path), verifier, entries, reader)
	}
	fmt.Println(origin, tree.N, tree.Hash)
}

// tiles reads the tiles of a folder, for tlog.TileHashReader.
type tiles string

func (dir tiles) Height() int { return height }

func (dir tiles) ReadTiles(wanted []tlog.Tile) (data [][]byte, err error) {
	for _, tile := range wanted {
		data = append(data, read(filepath.Join(string(dir), tilePath(tile))))
	}
	return data, nil
}

func (dir tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func tilePath(tile tlog.Tile) string {
	return strings.Replace(tile.Path(), fmt.Sprintf("tile/%d/", height), "tile/", 1)
}

// bundlePath names the entries of a tile of level 0.
func bundlePath(tile tlog.Tile) string {
	return strings.Replace(tilePath(tile), "tile/0/", "tile/entries/", 1)
}

func bundles(size int64) (found []tlog.Tile) {
	for n := int64(0); n < size; n += 1 << height {
		width := size - n
		if width > 1<<height {
			width = 1 << height
		}
		found = append(found, tlog.Tile{H: height, L: 0, N: n >> height, W: int(width)})
	}
	return found
}

func readEntries(dir string, size int64) (entries [][]byte) {
	for _, tile := range bundles(size) {
		data := read(filepath.Join(dir, bundlePath(tile)))
		for n := 0; n < tile.W; n++ {
			end := 2 + int(binary.BigEndian.Uint16(data))
			entries, data = append(entries, data[2:end]), data[end:]
		}
		if len(data) > 0 {
			log.Fatalf("%s: %d bytes too many", bundlePath(tile), len(data))
		}
	}
	return entries
}

// openCheckpoint checks a note's signature and returns its origin and its tree.
func openCheckpoint(data []byte, verifier note.Verifier) (string, tlog.Tree) {
	opened := must(note.Open(data, note.VerifierList(verifier)))
	lines := strings.Split(opened.Text, "\n")
	tree := tlog.Tree{N: number(lines[1]), Hash: must(tlog.ParseHash(lines[2]))}
	if lines[0] != verifier.Name() {
		log.Fatalf("%s signed for %s", verifier.Name(), lines[0])
	}
	return lines[0], tree
}

// checkProof checks a tlog-proof, or the body of an add-checkpoint request.
func checkProof(data []byte, verifier note.Verifier, entries [][]byte, reader tlog.HashReader) {
	top, checkpoint, _ := bytes.Cut(data, []byte("\n\n"))
	_, tree := openCheckpoint(checkpoint, verifier)
	var hashes []tlog.Hash
	var index, old int64 = -1, -1
	var extra []byte
	for _, line := range strings.Split(string(top), "\n") {
		word, value, _ := strings.Cut(line, " ")
		switch word {
		case "c2sp.org/tlog-proof@v1":
		case "extra":
			extra = must(base64.StdEncoding.DecodeString(value))
		case "index":
			index = number(value)
		case "old":
			old = number(value)
		default:
			hashes = append(hashes, must(tlog.ParseHash(line)))
		}
	}
	if old >= 0 {
		check(tlog.CheckTree(hashes, tree.N, tree.Hash, old, must(tlog.TreeHash(old, reader))))
		return
	}
	if !bytes.Equal(extra, entries[index]) {
		log.Fatalf("the proof holds another entry than %d", index)
	}
	check(tlog.CheckRecord(hashes, tree.N, tree.Hash, index, tlog.RecordHash(extra)))
}

// stored holds the hashes of a log that is being made, in the order of tlog.StoredHashIndex.
type stored []tlog.Hash

func (all stored) ReadHashes(indexes []int64) (found []tlog.Hash, err error) {
	for _, index := range indexes {
		found = append(found, all[index])
	}
	return found, nil
}

func makeLog(origin, dir string, size, old int64) {
	private, vkey, err := note.GenerateKey(rand.Reader, origin)
	check(err)
	signer := must(note.NewSigner(private))
	var all stored
	var entries [][]byte
	for n := int64(0); n < size; n++ {
		entries = append(entries, []byte(strings.Repeat("x", int(n%7))+strconv.FormatInt(n, 10)))
		all = append(all, must(tlog.StoredHashes(n, entries[n], all))...)
	}
	for _, tile := range tlog.NewTiles(height, 0, size) {
		write(filepath.Join(dir, tilePath(tile)), must(tlog.ReadTileData(tile, all)))
	}
	for _, tile := range bundles(size) {
		var bundle []byte
		for _, entry := range entries[tile.N<<height : tile.N<<height+int64(tile.W)] {
			bundle = append(binary.BigEndian.AppendUint16(bundle, uint16(len(entry))), entry...)
		}
		write(filepath.Join(dir, bundlePath(tile)), bundle)
	}
	root := must(tlog.TreeHash(size, all))
	text := fmt.Sprintf("%s\n%d\n%s\n", origin, size, root)
	signed := string(must(note.Sign(&note.Note{Text: text}, signer)))
	write(filepath.Join(dir, "checkpoint"), []byte(signed))
	for n := int64(0); n < size; n++ {
		extra := base64.StdEncoding.EncodeToString(entries[n])
		head := fmt.Sprintf("c2sp.org/tlog-proof@v1\nextra %s\nindex %d\n", extra, n)
		proof := head + lines(must(tlog.ProveRecord(size, n, all))) + "\n" + signed
		write(filepath.Join(dir, "proofs", strconv.FormatInt(n, 10)), []byte(proof))
	}
	growth := fmt.Sprintf("old %d\n", old) + lines(must(tlog.ProveTree(size, old, all))) + "\n" + signed
	write(filepath.Join(dir, "proofs", "growth"), []byte(growth))
	fmt.Println(vkey, must(tlog.TreeHash(old, all)))
}

func lines(hashes []tlog.Hash) (text string) {
	for _, hash := range hashes {
		text += hash.String() + "\n"
	}
	return text
}

func number(text string) int64 { return must(strconv.ParseInt(text, 10, 64)) }

func read(path string) []byte { return must(os.ReadFile(path)) }

func write(path string, data []byte) {
	check(os.MkdirAll(filepath.Dir(path), 0o755))
	check(os.WriteFile(path, data, 0o644))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

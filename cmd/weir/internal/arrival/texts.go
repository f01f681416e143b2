package arrival

// texts keeps copies of texts, in chunks that never move. So each text is kept once, however many there are.
type texts struct {
	chunks [][]byte
}

// chunkSize is that of a chunk, unless one text is longer.
const chunkSize = 16 << 10

// keep returns a copy of a text, which is valid until the next call of forget.
func (t *texts) keep(text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	last := len(t.chunks) - 1
	if last < 0 || cap(t.chunks[last])-len(t.chunks[last]) < len(text) {
		t.chunks = append(t.chunks, make([]byte, 0, max(chunkSize, len(text))))
		last++
	}
	from := len(t.chunks[last])
	t.chunks[last] = append(t.chunks[last], text...)
	return t.chunks[last][from:len(t.chunks[last]):len(t.chunks[last])]
}

// forget forgets all texts, and keeps the space of one chunk.
func (t *texts) forget() {
	if len(t.chunks) == 0 {
		return
	}
	first := t.chunks[0]
	clear(t.chunks)
	t.chunks = t.chunks[:0]
	if cap(first) == chunkSize {
		t.chunks = append(t.chunks, first[:0])
	}
}

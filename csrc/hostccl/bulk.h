// The bulk ring of a pair of ranks: large messages one after the other, each led by its name, so that a sender need not wait
// for its receiver before it begins. The reader takes whatever is there while the rest is still being written.
//
// Threads: one per end at a time. Nothing waits here, but for the microseconds in which both ends find out how far apart
// their cores are. Must not know: tags, requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "hostccl/ring.h"

namespace hostccl {

class BulkWriter {
 public:
  // measures: it finds out now and then how far the reader's core is. Between distant cores streaming stores are several
  // times faster, between near ones up to twice as slow.
  BulkWriter(PairControl& pair, std::byte* ring, size_t ring_bytes, bool measures);

  // Writes one more chunk of the message, the first with its name. False: there is no room.
  bool write(uint64_t id, const std::byte* data, size_t bytes, size_t& moved);

 private:
  bool begin(uint64_t id, size_t bytes);
  void measure(uint64_t last_round);

  RingWriter ring_;
  Counter& probe_;
  const Counter& answer_;
  const bool measures_;
  bool streaming_ = false;
  bool begun_ = false;
  uint64_t round_ = 0;
  size_t unmeasured_ = SIZE_MAX;  // bytes sent since the last measurement; there was none yet
};

class BulkReader {
 public:
  BulkReader(PairControl& pair, const std::byte* ring, size_t ring_bytes);

  // The message that is under way or comes next.
  std::optional<uint64_t> front();
  // Reads what there is of the front message. False: nothing yet.
  bool read(std::byte* to, size_t bytes, size_t& moved);

 private:
  void answer(uint64_t last_round);

  RingReader ring_;
  const Counter& probe_;
  Counter& answer_;
  std::optional<uint64_t> front_;
};

}  // namespace hostccl

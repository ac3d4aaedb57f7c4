// Reads a flight recorder's file: one that a process is writing to, one of a process that was killed, or a copy. An entry
// that changes while it is read is read again; one that was cut off in the middle is left out and counted.
// Any thread, any process that may open the file. Trusts nothing in it. Must not know: who wrote it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "recorder/format.h"

namespace pycomms::recorder {

// An entry as it was at one moment.
struct SeenEntry {
  uint64_t index = 0;
  int64_t issued_ns = 0, started_ns = 0, ended_ns = 0;
  // group: the number of one of Reader::groups(), or of one whose slot has become another's.
  uint32_t group = 0, sequence = 0, timeout_ms = 0, thread = 0;
  State state = State::kUnknown;
  uint16_t flags = 0;
  uint8_t kind = 0, reduction = 0;
  int32_t root = -1, peer = -1, tag = 0;
  uint64_t bytes = 0, stream = 0;
  std::string site, stack, error;
  std::vector<uint8_t> sizes;
};

struct SeenGroup {
  std::string name, description, device;
  std::vector<uint32_t> ranks;
  int32_t rank = 0, size = 0;
  uint32_t generation = 0, issued = 0, started = 0, completed = 0, requests = 0;
  uint32_t number = 0;  // by which entries refer to it; UINT32_MAX: its slot is just becoming another's
  bool is_late = false, has_left = false;
};

class Reader {
 public:
  static Result<std::unique_ptr<Reader>> open(const std::string& path);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Oldest first. torn: how many were cut off while they were written.
  std::vector<SeenEntry> entries(size_t* torn = nullptr) const;
  std::vector<SeenGroup> groups() const;
  const Header& header() const { return *reinterpret_cast<const Header*>(data_); }
  std::string text(Text at) const;  // empty when it points nowhere

 private:
  Reader(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* const data_;
  const size_t size_;
};

// A slot as it is at one moment; false when it is being written all the time.
bool copy_slot(const Slot& slot, Slot* copy);

}  // namespace pycomms::recorder

// The writer of a flight recorder's file. To begin an entry is to fill one slot of mapped memory: no lock, no allocation, no
// system call. Everything else (groups, names, call sites that are new) is rare and takes a mutex.
// Any thread. In a forked child it records nothing: the file is the parent's. Must not know: torch, Python, engines.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/fork.h"
#include "base/status.h"
#include "recorder/format.h"
#include "recorder/sizes.h"

namespace pycomms::recorder {

struct RingOptions {
  std::string path;  // must not exist; its folder must
  uint32_t entries = 4096;
  uint32_t groups = 1024;
  int rank = -1;
  int world_size = 0;
  int attempt = 0;
  std::string job, library;
  std::string kinds, dtypes, reductions;  // names by number, separated by newlines
};

struct GroupInfo {
  std::string name, description, device;
  std::vector<uint32_t> ranks;  // global; empty: 0 to size - 1
  int rank = 0;
  int size = 1;
  uint32_t generation = 0;
  bool is_late = false;
};

// What is known of an operation when it is issued.
struct Issue {
  uint32_t group = 0;
  uint32_t sequence = 0;
  uint8_t kind = 0;
  uint8_t reduction = 0;
  uint16_t flags = 0;
  int32_t root = -1;
  int32_t peer = -1;
  int32_t tag = 0;
  uint32_t timeout_ms = 0;
  bool starts_now = false;
  Text site = 0;
  Text stack = 0;
  uint64_t bytes = 0;
  uint64_t stream = 0;
};

class Ring;

// One entry, for whoever ends it: a handle of three words that may outlive the entry, whose slot is then another's.
class Entry {
 public:
  Entry() = default;
  explicit operator bool() const { return slot_ != nullptr; }

  // The call that issued it has returned: takes kInCall away.
  void returned() const;
  // Nobody will say when it ends: sets kNoCompletion.
  void give_up() const;
  void end(State state, int64_t ended_ns, std::string_view error = {}) const;

 private:
  friend class Ring;
  Entry(Ring* ring, Slot* slot, uint64_t version) : ring_(ring), slot_(slot), version_(version) {}
  bool lock() const;  // false: the slot is another entry's by now
  void unlock() const;

  Ring* ring_ = nullptr;
  Slot* slot_ = nullptr;
  uint64_t version_ = 0;
};

class Ring {
 public:
  // Reserves all of the file's memory at once: a full disk shows here, and never later as a signal.
  static Result<std::unique_ptr<Ring>> create(const RingOptions& options);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // The number by which entries refer to the group; zero when there is no room for more. When all slots have been used, the
  // group that was left first makes room.
  uint32_t add_group(const GroupInfo& group);
  void describe_group(uint32_t group, std::string_view description);
  void leave_group(uint32_t group);
  // The next number of the group's point-to-point operations.
  uint32_t next_request(uint32_t group) { return live(group).requests.fetch_add(1, std::memory_order_relaxed) + 1; }

  // The same text always gets the same number; zero when there is no room.
  Text intern(std::string_view text);

  Entry begin(const Issue& issue, const Sizes& sizes, int64_t now = now_ns());

  // Notes why a dump is written; the number of that dump, from 1.
  uint32_t note_dump(std::string_view reason);
  // From a signal handler.
  void note_signal(int signal);
  void close();
  bool has_trouble() const;  // a dump was written, or a signal came: the file is of interest after the end

  const std::string& path() const { return path_; }
  const std::byte* data() const { return data_; }
  size_t used() const;  // bytes up to the end of what is used of the heap
  bool is_foreign() const { return fork_generation_ != fork_generation(); }

 private:
  friend class Entry;
  Ring(std::string path, std::byte* data, size_t size);
  Header& header() const { return *reinterpret_cast<Header*>(data_); }
  GroupSlot& slot_at(uint32_t place) const { return reinterpret_cast<GroupSlot*>(data_ + header().groups_at)[place]; }
  // The group's own slot; that of group zero once it has made room for another.
  GroupSlot& live(uint32_t group) const;
  GroupSlot* take_slot(uint32_t* group);
  Text append(std::string_view bytes);
  Text intern_whole(std::string_view text);
  void look_at_clocks();

  const std::string path_;
  std::byte* const data_;
  const size_t size_;
  Slot* const slots_;
  const uint32_t capacity_;
  const uint32_t fork_generation_ = pycomms::fork_generation();

  std::mutex mutex_;
  std::unordered_map<std::string, Text> texts_;  // guarded by mutex_
  std::deque<uint32_t> left_;                    // guarded by mutex_; groups whose slots may become others'
};

// The ring of this process, or null: none was opened, or this is a forked child.
Ring* process_ring();
// For the life of the process; a ring that was there before stays mapped, for whoever still writes to it.
void set_process_ring(std::unique_ptr<Ring> ring);

}  // namespace pycomms::recorder

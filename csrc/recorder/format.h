// The file of a flight recorder, byte by byte: a header, then groups, then the slots of a ring of entries, then a heap of
// strings. The process that records has it mapped; the kernel owns the pages, so what was stored is there for others
// while it runs and after it was killed. Little-endian, every field at its natural alignment; docs/flight_recorder.md
// describes it for readers in other languages, pycomms/flight_recorder/_ring.py is one.
// Must not know: who writes or reads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pycomms::recorder {

inline constexpr char kMagic[8] = {'P', 'Y', 'C', 'O', 'M', 'M', 'S', 'F'};
inline constexpr uint32_t kVersion = 2;
inline constexpr size_t kHeaderBytes = 4096;

// Offset of a string in the heap: its length in 32 bits, then its bytes. Zero: none.
using Text = uint32_t;

enum class State : uint8_t {
  kUnknown,
  kIssued,
  kRunning,
  kCompleted,
  kFailed,
  kTimedOut,
  kCancelled,
  kRejected,  // refused on the spot: it has no place in the group's sequence
};

// Flags of an entry.
inline constexpr uint16_t kPointToPoint = 1;
inline constexpr uint16_t kAsync = 2;
inline constexpr uint16_t kCoalesced = 4;       // one of several that share a sequence number
inline constexpr uint16_t kSizesCut = 8;        // there were more sizes than fit
inline constexpr uint16_t kLate = 16;           // recording began after the group was made
inline constexpr uint16_t kInCall = 64;         // the call has not returned, or it raised: nobody can tell from outside
inline constexpr uint16_t kNoCompletion = 128;  // nobody will say when it ends
inline constexpr uint16_t kTimesFound = 256;    // start and end are when somebody looked

struct Header {
  char magic[8];  // written last
  uint32_t version;
  uint32_t header_bytes;
  uint64_t file_bytes;

  uint64_t groups_at;
  uint32_t group_bytes;
  uint32_t group_capacity;
  uint64_t slots_at;
  uint32_t slot_bytes;
  uint32_t slot_capacity;
  uint64_t heap_at;
  uint64_t heap_bytes;

  int32_t rank;
  int32_t world_size;
  int32_t pid;
  int32_t attempt;
  uint64_t process_started;  // field 22 of /proc/<pid>/stat: tells a process from a later one of the same pid
  Text host, job, library;
  Text kinds, dtypes, reductions;  // their names, by number, separated by newlines

  // Two looks at both clocks: when the file was made, and lately.
  int64_t opened_monotonic_ns, opened_wall_ns;
  std::atomic<int64_t> recent_monotonic_ns, recent_wall_ns;

  std::atomic<uint64_t> next;  // entries that were ever begun
  std::atomic<uint64_t> lost;  // of these, not recorded, because their slot was being written
  std::atomic<uint64_t> heap_used;
  std::atomic<uint32_t> heap_lost;  // strings that had no room
  std::atomic<uint32_t> groups;     // that are there
  std::atomic<uint32_t> groups_lost;
  std::atomic<uint32_t> closed;    // 1: the process took its leave
  std::atomic<uint32_t> dumps;     // that were written
  std::atomic<Text> reason;        // of the last dump
  std::atomic<int64_t> reason_ns;  // monotonic
  std::atomic<int32_t> signal;     // that ended the process, as far as it could say
};
static_assert(sizeof(Header) <= kHeaderBytes);

// Entries refer to a group by the place of its slot in the lower half and its `life` in the upper: a slot whose group was
// destroyed may become another's, and what the first one left behind is none of the second.
inline constexpr uint32_t kMostGroups = 1 << 16;
inline constexpr uint32_t place_of(uint32_t group) { return group % kMostGroups; }
inline constexpr uint32_t life_of(uint32_t group) { return group / kMostGroups; }

struct alignas(128) GroupSlot {
  std::atomic<uint32_t> is_there;  // 1 while the rest is whole
  Text name;
  std::atomic<Text> description;  // may be known later than the rest
  Text ranks;                     // global, 32 bits each; zero: ranks 0 to size - 1
  int32_t size;
  int32_t rank;  // of this process in it
  uint32_t generation;
  uint32_t is_late;  // recording began after it was made
  Text device;       // "cpu", "cuda"
  std::atomic<uint32_t> left;
  int64_t made_ns;
  // Of collectives, from 1.
  std::atomic<uint32_t> issued, started, completed;
  std::atomic<uint32_t> requests;  // point-to-point operations that were issued
  std::atomic<uint32_t> life;      // how many groups had the slot before, in 16 bits
};
static_assert(sizeof(GroupSlot) == 128);

inline constexpr size_t kSizesBytes = 152;

// `version` is 4 * index + phase. An entry that is whole has kWhole there and 4 * index + kWhole in `version_behind`.
inline constexpr uint64_t kWriting = 1, kWhole = 2, kUpdating = 3;

struct alignas(64) Slot {
  std::atomic<uint64_t> version;
  int64_t issued_ns;  // all times of the monotonic clock; zero: not known
  std::atomic<int64_t> started_ns, ended_ns;
  uint32_t group;
  std::atomic<uint32_t> sequence;
  Text site;   // "file:line\nfunction"
  Text stack;  // such pairs, innermost first
  std::atomic<Text> error;
  uint32_t timeout_ms;
  uint32_t thread;
  std::atomic<State> state;
  uint8_t padding;
  uint16_t flags;
  // --- From here to `stream`: what the ranks must agree on.
  uint8_t kind, reduction;
  uint8_t sizes_used;
  uint8_t padding_2;
  int32_t root;
  int32_t peer;  // -2: any
  int32_t tag;
  uint64_t bytes;  // of this rank's input
  // Inputs, outputs, splits of the input, splits of the output. A list of tensors: their number, and of each its type, its
  // number of dimensions, and these; a list of splits: their number, and these. Numbers of 7 bits a byte, lowest first,
  // 128 is added while more follow.
  uint8_t sizes[kSizesBytes];
  // ---
  uint64_t stream;
  std::atomic<uint64_t> version_behind;
};
static_assert(sizeof(Slot) == 256 && offsetof(Slot, kind) == 64 && offsetof(Slot, stream) == 240);

}  // namespace pycomms::recorder

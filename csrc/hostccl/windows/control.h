// What lies in shared memory beside the memory of a window: its state, its lock and its signals. One block a rank; every rank
// of its host maps it, and the rank's own service changes it on behalf of ranks elsewhere.
//
// Who writes what: the owner writes `state`; whoever signals writes the signals of its own rank, and what it says of its own
// window; lock words go by the rules of locks.h. Zeroed at birth. Must not know: who waits, and how.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/futex.h"
#include "hostccl/layout.h"

namespace hostccl {

// kClosing: its owner has nothing more to do in the window, and waits for the others; they can use it.
// kMisordered: it is closed, for its owner has met others that were closing another one; only others are told that.
enum class WindowState : uint32_t { kOpen = 0, kClosed = 1, kClosing = 2, kMisordered = 3 };

inline bool is_over(WindowState state) { return state == WindowState::kClosed || state == WindowState::kMisordered; }

struct WindowControl {
  alignas(kLine) std::atomic<WindowState> state;
  Bell signalled;                               // for the owner
  Bell unlocked;                                // for whoever waits for the lock
  alignas(kLine) std::atomic<uint32_t> writer;  // rank + 1 of who holds the lock alone; 0: nobody does
  // rank + 1 of a dead holder whose lock was broken by one who then gave up: the next holder is to be told. 0: there is none.
  std::atomic<uint32_t> broken;
};

// Of each rank, in the block of another one.
struct alignas(kLine) WindowGuest {
  std::atomic<uint32_t> holds;      // how often it holds the lock together with others
  std::atomic<WindowState> itself;  // what has become of its own part of the window, as far as it has told
};

// Whoever sleeps on the bell looks again.
inline void wake(Bell& bell) {
  if (bell.sleepers.load(std::memory_order_seq_cst) == 0) return;
  bell.rung.fetch_add(1, std::memory_order_seq_cst);
  pycomms::futex_wake_all(bell.rung);
}

// Where the parts of a block are. Plain arithmetic.
class WindowLayout {
 public:
  WindowLayout(int nranks, int slots) : nranks_(static_cast<size_t>(nranks)), slots_(static_cast<size_t>(slots)) {}

  int nranks() const { return static_cast<int>(nranks_); }
  int slots() const { return static_cast<int>(slots_); }
  size_t bytes() const { return sizeof(WindowControl) + nranks_ * sizeof(WindowGuest) + nranks_ * row(); }

  WindowControl& control(std::byte* base) const { return *reinterpret_cast<WindowControl*>(base); }
  WindowGuest& guest(std::byte* base, int rank) const {
    return reinterpret_cast<WindowGuest*>(base + sizeof(WindowControl))[index(rank)];
  }
  std::atomic<uint32_t>& readers(std::byte* base, int rank) const { return guest(base, rank).holds; }
  std::atomic<int64_t>& signal(std::byte* base, int source, int slot) const {
    return reinterpret_cast<std::atomic<int64_t>*>(base + sizeof(WindowControl) + nranks_ * sizeof(WindowGuest) +
                                                   index(source) * row())[slot];
  }

 private:
  static size_t index(int rank) { return static_cast<size_t>(rank); }
  // A source's signals share no cache line with another one's.
  size_t row() const { return (slots_ * sizeof(int64_t) + kLine - 1) / kLine * kLine; }

  size_t nranks_;
  size_t slots_;
};

}  // namespace hostccl

#include "hostccl/windows/locks.h"

namespace hostccl {
namespace {

uint32_t mark_of(int rank) { return static_cast<uint32_t>(rank) + 1; }
int rank_of(uint32_t mark) { return static_cast<int>(mark) - 1; }

}  // namespace

bool WindowLockAttempt::try_now() {
  if (!(shared_ ? try_shared() : try_alone())) return false;
  std::atomic<uint32_t>& untold = memory_.control().broken;
  if (untold.load(std::memory_order_relaxed) == 0) [[likely]]
    return true;
  if (const uint32_t mark = untold.exchange(0, std::memory_order_seq_cst); mark != 0 && broken_ < 0) {
    broken_ = rank_of(mark);
  }
  return true;
}

// The mark first, so that nobody new comes in; then those who share it have to leave.
bool WindowLockAttempt::try_alone() {
  std::atomic<uint32_t>& writer = memory_.control().writer;
  if (!keeps_others_out_) {
    uint32_t seen = 0;
    if (!writer.compare_exchange_strong(seen, mark_of(rank_), std::memory_order_seq_cst) && !break_dead_writer(seen)) {
      return false;
    }
    keeps_others_out_ = true;
  }
  for (int rank = 0; rank < memory_.layout.nranks(); ++rank) {
    std::atomic<uint32_t>& readers = memory_.layout.readers(memory_.block, rank);
    if (readers.load(std::memory_order_seq_cst) == 0) continue;
    if (!is_dead_(rank)) return false;
    readers.store(0, std::memory_order_seq_cst);
    broken_ = rank;
  }
  return true;
}

// Both sides announce themselves first and look second: one of the two sees the other.
bool WindowLockAttempt::try_shared() {
  std::atomic<uint32_t>& mine = memory_.layout.readers(memory_.block, rank_);
  mine.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t seen = memory_.control().writer.load(std::memory_order_seq_cst);
  if (seen == 0) return true;
  mine.fetch_sub(1, std::memory_order_seq_cst);
  wake(memory_.control().unlocked);  // who wants it alone may have seen us
  if (break_dead_writer(seen)) {
    // It is ours alone now: make it one that is shared.
    mine.fetch_add(1, std::memory_order_seq_cst);
    memory_.control().writer.store(0, std::memory_order_seq_cst);
    wake(memory_.control().unlocked);
    return true;
  }
  return false;
}

bool WindowLockAttempt::break_dead_writer(uint32_t seen) {
  if (seen == 0 || rank_of(seen) == rank_ || !is_dead_(rank_of(seen))) return false;
  if (!memory_.control().writer.compare_exchange_strong(seen, mark_of(rank_), std::memory_order_seq_cst)) return false;
  broken_ = rank_of(seen);
  return true;
}

void WindowLockAttempt::give_up() {
  if (broken_ >= 0) memory_.control().broken.store(mark_of(broken_), std::memory_order_seq_cst);
  if (!keeps_others_out_) return;
  keeps_others_out_ = false;
  memory_.control().writer.store(0, std::memory_order_seq_cst);
  wake(memory_.control().unlocked);
}

int WindowLockAttempt::holder() const {
  const uint32_t seen = memory_.control().writer.load(std::memory_order_acquire);
  if (seen != 0 && rank_of(seen) != rank_) return rank_of(seen);
  for (int rank = 0; rank < memory_.layout.nranks(); ++rank) {
    if (memory_.layout.readers(memory_.block, rank).load(std::memory_order_acquire) != 0) return rank;
  }
  return seen != 0 ? rank_of(seen) : -1;
}

bool unlock(const WindowMemory& memory, int rank, bool shared) {
  if (shared) {
    // Several threads of a rank may share it: never below zero.
    std::atomic<uint32_t>& readers = memory.layout.readers(memory.block, rank);
    uint32_t held = readers.load(std::memory_order_relaxed);
    do {
      if (held == 0) return false;
    } while (!readers.compare_exchange_weak(held, held - 1, std::memory_order_seq_cst));
  } else {
    uint32_t mine = mark_of(rank);
    if (!memory.control().writer.compare_exchange_strong(mine, 0, std::memory_order_seq_cst)) return false;
  }
  wake(memory.control().unlocked);
  return true;
}

}  // namespace hostccl

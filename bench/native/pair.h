// Two processes, one per rank, that share flags and memory: the ground on which the limits are measured.
// Each process owns one Pair and calls it from one thread. Waits spin, for nothing may be faster, and give up after
// kPatience. Must not know torch or any library under test.
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>

#include "rank_link.h"

namespace bench {

inline constexpr size_t kLargest = 256ul << 20;  // bytes of a message
inline constexpr size_t kRingMax = 8ul << 20;
inline constexpr int64_t kPatience = 60'000'000'000;  // ns

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

template <typename Reached>
void spin_until(Reached reached) {
  int64_t since = 0;
  for (uint64_t spins = 1; !reached(); ++spins) {
    relax();
    if (spins % (1u << 24) != 0) continue;
    if (since == 0) since = now_ns();
    if (now_ns() - since > kPatience) die("the other process did not come");
  }
}

struct alignas(128) Flag {
  std::atomic<uint64_t> value{0};

  void set(uint64_t to) { value.store(to, std::memory_order_release); }
  uint64_t get() const { return value.load(std::memory_order_acquire); }
  void wait_for(uint64_t at_least) const {
    spin_until([&] { return get() >= at_least; });
  }
};

// A small message and the flag that announces it, in one cache line.
struct alignas(128) Letter {
  static constexpr size_t kFloats = 14;
  std::atomic<uint64_t> number{0};
  float data[kFloats];
};

struct Flags {
  Flag barrier[2], ping[2];
  Flag posted[2], consumed[2];  // chunks of ring[i]: written by its owner, read by the peer
  Flag results[2], taken[2];    // the same for the ring of results
  Letter letters[2][2];         // by writer; odd and even ones, so that none is overwritten before it is read
  std::atomic<double> us[2];    // scratch for agreeing on a figure
};

inline void* map_or_die(size_t bytes, int flags, int fd) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (at == MAP_FAILED) die("mmap failed");
  return at;
}

class Pair {
 public:
  // Forks: returns in both processes, the child being rank 1. `cores` as in core_of.
  explicit Pair(const std::string& cores) {
    flags_ = new (map_or_die(sizeof(Flags), MAP_SHARED | MAP_ANONYMOUS, -1)) Flags;
    for (int i = 0; i < 2; ++i) {
      // Reserved, not touched: pages come with first use and go with release().
      shared_[i] = static_cast<float*>(map_or_die(kLargest, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1));
      ring_[i] = static_cast<char*>(map_or_die(kRingMax, MAP_SHARED | MAP_ANONYMOUS, -1));
      result_ring_[i] = static_cast<char*>(map_or_die(kRingMax, MAP_SHARED | MAP_ANONYMOUS, -1));
    }
    const pid_t parent = getpid();
    child_ = fork();
    if (child_ < 0) die("fork failed");
    rank_ = child_ == 0 ? 1 : 0;
    if (rank_ == 1) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) std::_Exit(1);
    }
    pin_to(core_of(cores, rank_));
    std::memset(ring_[rank_], 0, kRingMax);
    std::memset(result_ring_[rank_], 0, kRingMax);
  }
  ~Pair() {
    if (rank_ == 0) waitpid(child_, nullptr, 0);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  int rank() const { return rank_; }
  Flags& flags() { return *flags_; }
  Flag& mine(Flag (&pair)[2]) { return pair[rank_]; }
  Flag& theirs(Flag (&pair)[2]) { return pair[1 - rank_]; }
  float* shared() { return shared_[rank_]; }
  float* peer_shared() { return shared_[1 - rank_]; }
  Letter& my_letter(uint64_t number) { return flags_->letters[rank_][number % 2]; }
  Letter& peer_letter(uint64_t number) { return flags_->letters[1 - rank_][number % 2]; }
  char* ring() { return ring_[rank_]; }
  char* peer_ring() { return ring_[1 - rank_]; }
  char* result_ring() { return result_ring_[rank_]; }
  char* peer_result_ring() { return result_ring_[1 - rank_]; }

  void barrier() {
    mine(flags_->barrier).set(++barriers_);
    theirs(flags_->barrier).wait_for(barriers_);
  }

  // The larger of the two processes' figures, on both.
  double agree(double us) {
    flags_->us[rank_].store(us);
    barrier();
    const double larger = std::max(flags_->us[0].load(), flags_->us[1].load());
    barrier();
    return larger;
  }

  // Gives the pages of my shared buffer back.
  void release() { madvise(shared(), kLargest, MADV_REMOVE); }

 private:
  Flags* flags_;
  float* shared_[2];
  char* ring_[2];
  char* result_ring_[2];
  pid_t child_;
  int rank_;
  uint64_t barriers_ = 0;
};

}  // namespace bench

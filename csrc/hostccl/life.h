// How the death of a process is seen at once. A thread that lives as long as the process holds a robust futex in every
// shared segment; when the process ends, however it ends, the kernel walks that thread's robust list before it tears the
// address space down and marks the words. Reading a word is one load, so whoever waits for a peer can afford to look.
// The backstop for what the list cannot show (more than 2,048 entries, exec) is a pidfd per peer process.
// Any thread. Must not know: communicators.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace hostccl {

// Lies in shared memory. `next` has a meaning only for the process that holds the word (and for the kernel, on its behalf).
struct alignas(128) LifeNode {
  LifeNode* next;
  std::atomic<uint32_t> word;  // thread id of the holder; FUTEX_OWNER_DIED once it is gone
};

// Holds the node's word for as long as the object lives.
class LifeHold {
 public:
  static pycomms::Result<std::unique_ptr<LifeHold>> take(LifeNode& node);
  ~LifeHold();
  LifeHold(const LifeHold&) = delete;
  LifeHold& operator=(const LifeHold&) = delete;

 private:
  explicit LifeHold(LifeNode& node);
  LifeNode& node_;
  const uint32_t fork_generation_;
};

bool is_dead(const LifeNode& node);

// Polls a pidfd; the fallback, one system call a look.
class ProcessWatch {
 public:
  explicit ProcessWatch(int pid);
  bool has_ended() const;

 private:
  pycomms::Fd pidfd_;
};

// What the kernel still tells about how `pid` ended: "killed by signal 9", or an empty string when it tells nothing.
std::string how_it_ended(int pid);

}  // namespace hostccl

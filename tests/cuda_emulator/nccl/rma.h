// One-sided operations between the processes of this host: a put writes straight into the other process, a signal is a
// counter in memory that both map. What a window is of, the members have told each other when it was registered.
//
// Threads: registration is collective, one at a time; the rest any. Must not know: streams, handles.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/shared_memory.h"
#include "hostccl/nccl_abi_newer.h"
#include "inner.h"

namespace nccl_emulator {

class Rma {
 public:
  static constexpr int kSlots = 16;
  static constexpr int kContexts = 4;

  // Collective; the signals of all members are mapped.
  static pycomms::Result<std::shared_ptr<Rma>> open(hostccl::Communicator& comm);
  // Collective. The window's number, the same on all members. bytes: where its memory can be written.
  pycomms::Result<int> add_window(hostccl::Communicator& comm, void* bytes, size_t size);

  pycomms::Status put(int window, int peer, size_t offset, const void* local, size_t size) const;
  void signal(int peer, int context, int slot) const;
  // Waits for `count` more signals than earlier waits have taken. False: `is_over` said so.
  bool wait(const nccl_abi::WaitSignal& wanted, const std::function<bool()>& is_over);

  static bool is_valid(int context, int slot) {
    return context >= 0 && context < kContexts && slot >= 0 && slot < kSlots;
  }

 private:
  struct Region {  // what one member has registered
    int64_t pid;
    uint64_t bytes;
    uint64_t size;
  };
  struct Signals {
    std::atomic<uint32_t> bell;
    std::atomic<uint64_t>* counter(int source, int context, int slot) {
      auto* const first = reinterpret_cast<std::atomic<uint64_t>*>(this) + 1;
      return first + (source * kContexts + context) * kSlots + slot;
    }
  };
  explicit Rma(int rank) : rank_(rank) {}
  static size_t signal_bytes(int nranks) {
    return sizeof(uint64_t) * (1 + static_cast<size_t>(nranks) * kContexts * kSlots);
  }
  Signals& signals_of(int rank) const {
    return *reinterpret_cast<Signals*>(signals_[static_cast<size_t>(rank)]->data());
  }

  const int rank_;
  pycomms::Fd own_;
  std::vector<std::shared_ptr<pycomms::SharedMapping>> signals_;  // by rank
  std::vector<uint64_t> taken_;                                   // like a member's counters; of the waiting stream

  mutable std::mutex mutex_;
  std::vector<std::vector<Region>> windows_;  // GUARDED_BY(mutex_): by number and rank
};

}  // namespace nccl_emulator

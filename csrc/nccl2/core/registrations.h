// The memory that a program lets one communicator use in place: segments of torch's allocator that are registered with the
// engine. What is gone is deregistered before the communicator's next operation, so none finds a registration of memory that
// was there before; memory of the engine's own (HeldMemory) is not even freed until then.
//
// Called by the thread that issues the communicator's operations, as NCCL demands; others wait for their turn. No lock of
// torch's allocator is held. Must not know: torch, what a segment is used for.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "nccl2/core/device_segments.h"
#include "nccl2/core/held_memory.h"
#include "nccl2/driver/nccl_api.h"

namespace pycomms {

class Registrations {
 public:
  enum class Mode { kNone, kLocal, kSymmetric };  // kSymmetric: as a window, which all ranks make together

  // What the engine said; `why` says more, if there is more to say.
  struct Answer {
    EngineResult result = nccl_abi::kSuccess;
    std::string why;
    bool is_ok() const { return result == nccl_abi::kSuccess; }
  };
  // Waits for a call that a nonblocking communicator left in progress.
  using Settle = std::function<EngineResult(EngineResult)>;

  Registrations(const Engine& engine, int device) : nccl_(engine.nccl), version_(engine.version), device_(device) {}

  // Whether this library can do it at all; the error names the version that can.
  Answer can_register(Mode mode) const;

  // From now on all segments of the device, or all of the pool, are registered as they come.
  void follow_all();
  void follow(const PoolId& pool);
  bool follows_all() const { return all_.load(std::memory_order_relaxed); }

  // Whether segments have come or gone since the last refresh(). Two loads.
  bool is_stale() const {
    return seen_.load(std::memory_order_relaxed) != DeviceSegments::instance().version() ||
           !is_fresh_.load(std::memory_order_relaxed);
  }
  // Something registered is gone. Operations that used it must have passed before refresh().
  bool has_gone();
  // Drops what is gone, registers what has come.
  Answer refresh(CommHandle comm);

  // How the pool was registered by add().
  Mode mode_of(const PoolId& pool);
  // Those of `segments` that add() would register.
  std::vector<DeviceSegment> missing(const std::vector<DeviceSegment>& segments, Mode mode);
  // Segments of one pool. What is registered already stays as it is. On an error some may have been.
  Answer add(CommHandle comm, const PoolId& pool, const std::vector<DeviceSegment>& segments, Mode mode,
             const Settle& settle);
  // All of the pool, segments that are gone included. Operations that used them must have passed.
  Answer drop(CommHandle comm, const PoolId& pool, const Settle& settle);

  bool is_empty();
  void drop_all(CommHandle comm, const Settle& settle);  // before the communicator is destroyed
  void forget();                                         // the communicator is gone, and its registrations with it
  // Segments that the engine did not take in refresh().
  size_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    uint64_t serial = 0;
    PoolId pool;
    void* handle = nullptr;                   // of a local registration
    nccl_abi::WindowHandle window = nullptr;  // written by the engine, maybe on a thread of its own
    bool is_held = false;
    bool is_refused = false;
  };
  using Entries = std::map<void*, Entry>;

  bool is_wanted(const DeviceSegment& segment) const;
  bool is_gone(void* address, const Entry& entry) const;
  Entry& entry_of(const DeviceSegment& segment);
  EngineResult add_local(CommHandle comm, const DeviceSegment& segment);
  Answer add_window(CommHandle comm, const DeviceSegment& segment, const Settle& settle);
  Answer drop_entry(CommHandle comm, void* address, Entry& entry, const Settle& settle);
  void release(void* address, const Entry& entry);

  const NcclApi& nccl_;
  const int version_;
  const int device_;
  std::atomic<uint64_t> seen_{0};  // the version of the segments at the last refresh()
  std::atomic<bool> is_fresh_{true};
  std::atomic<bool> all_{false};
  std::atomic<size_t> refused_{0};

  // Held over calls of the engine, which call nobody back: it is the turn of a thread to use the communicator.
  std::mutex turn_;
  Entries entries_;               // guarded by turn_
  std::set<PoolId> followed_;     // guarded by turn_
  std::map<PoolId, Mode> pools_;  // guarded by turn_: registered by add()
};

}  // namespace pycomms

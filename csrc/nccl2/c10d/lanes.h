// The communicators of a group, which begin and end together: that of its operations on the CPU, that of its sparse sums and
// that of its GPU, the latter two made at their first use. Shared by the backend, the thread that tears the group down, and
// the list of living groups. Any thread. Must not know: tensors, the backend.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <mutex>
#include <string>

#include "nccl2/c10d/abort_hooks.h"
#include "nccl2/c10d/device_group.h"
#include "nccl2/c10d/sparse.h"
#include "nccl2/core/communicator.h"

namespace pycomms::c10d_backend {

class Lanes {
 public:
  Lanes(c10::intrusive_ptr<::c10d::Store> store, std::shared_ptr<Communicator> main, std::shared_ptr<AbortHooks> hooks)
      : store_(std::move(store)), main_(std::move(main)), hooks_(std::move(hooks)) {}

  const std::shared_ptr<Communicator>& main() const { return main_; }
  const std::shared_ptr<AbortHooks>& hooks() const { return hooks_; }
  // Null in a group that was regrouped: its members may have different ones, and meet by way of `main`.
  const c10::intrusive_ptr<::c10d::Store>& store() const { return store_; }
  SparseLane& sparse();
  // For tensors on that GPU. Throws when the group serves another GPU already, or there is no NCCL.
  std::shared_ptr<DeviceGroup> device(c10::Device device, bool high_priority);
  std::shared_ptr<DeviceGroup> device_if_made();
  // Of a group that was split from another one.
  void adopt(std::shared_ptr<DeviceGroup> device);
  // For a communicator beside `main`, whose engine tells the members nothing: it hears from `main` of them, and they hear of
  // its failure. Asking does not connect and does not wait.
  static Members members_of(const std::shared_ptr<Communicator>& main);
  static Members serve(const std::shared_ptr<Communicator>& main, CommunicatorOptions* options);

  // See Communicator.
  void pause(const std::string& why);
  void end_pause();
  void abort(const std::string& why);
  void shutdown();
  // The process ends: see Communicator::leave. Callbacks may be running afterwards, which wait_for_callbacks waits for.
  void leave(const std::string& why);
  void wait_for_callbacks(Deadline deadline);

 private:
  void finish_connecting();
  std::unique_ptr<Rendezvous> rendezvous(const std::string& name, const CommunicatorOptions& options) const;
  CommunicatorOptions options_beside_main(const std::string& group) const;
  std::shared_ptr<SparseLane> sparse_if_made();

  const c10::intrusive_ptr<::c10d::Store> store_;
  const std::shared_ptr<Communicator> main_;
  const std::shared_ptr<AbortHooks> hooks_;
  std::mutex mutex_;
  std::shared_ptr<SparseLane> sparse_;   // guarded by mutex_
  std::shared_ptr<DeviceGroup> device_;  // guarded by mutex_
};

// Leaves all groups of this process and waits ten seconds for their callbacks, while there is an interpreter for these:
// a thread that needs Python after its end takes the process down. Also for engines that are still aborting.
void leave_all_groups();
// To be left by it, if it is still there.
void remember_group(const std::shared_ptr<Lanes>& group);

}  // namespace pycomms::c10d_backend

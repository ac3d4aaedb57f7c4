// c10d::Backend over core's Communicator: tensors in, operations out. One short function per method of c10d; all of them
// go through the one frame at the end of this file.
// Any thread, GIL released by torch's bindings; operations of one group are issued by one thread at a time.
// Must not know: which engine runs them.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "nccl2/c10d/abort_hooks.h"
#include "nccl2/c10d/compat.h"
#include "nccl2/c10d/ephemeral_timeout.h"
#include "nccl2/c10d/lanes.h"
#include "nccl2/c10d/op_steps.h"
#include "nccl2/c10d/options.h"
#include "nccl2/c10d/python_hooks.h"
#include "nccl2/c10d/recording.h"
#include "nccl2/c10d/tensor_op.h"
#include "nccl2/c10d/value_check.h"
#include "nccl2/c10d/visit.h"
#include "nccl2/c10d/window.h"
#include "nccl2/core/communicator.h"
#include "nccl2/core/reaper.h"
#include "nccl2/core/regroup_handle.h"
#include "nccl2/core/succession.h"

namespace pycomms::c10d_backend {

class Reduction;
class Work;
using WorkPtr = c10::intrusive_ptr<::c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<std::vector<at::Tensor>>;

class Backend final : public ::c10d::Backend {
 public:
  Backend(c10::intrusive_ptr<::c10d::Store> store, int rank, int size, c10::intrusive_ptr<GroupOptions> options,
          const Engine& engine, DeviceRuntime& runtime);
  ~Backend() override;

  const std::string getBackendName() const override { return kBackendName; }
  bool supportsSplitting() const override { return true; }
  // torch asks only to put batch_isend_irecv into a block. NCCL needs that: its operations run one after the other. Requests
  // on CPU tensors are independent of each other without one, and a block would swallow what other threads issue meanwhile.
  // startCoalescing and endCoalescing always work.
  bool supportsCoalescing() const override { return serves_gpu(); }
  bool supportsTimeEstimation() const override;  // device_life.cpp
  bool supportsShrinking() const override { return true; }
  bool supportsTensorAlloc(c10::DeviceIndex device) override;

  // --- Collectives (collectives.cpp) ---
  WorkPtr broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const ::c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const ::c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const ::c10d::ReduceOptions& opts) override;
  WorkPtr barrier(const ::c10d::BarrierOptions& opts) override;

  // --- Collectives with a piece per rank (gathering.cpp) ---
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const ::c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const ::c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs, const ::c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const ::c10d::AllgatherOptions& opts) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const ::c10d::GatherOptions& opts) override;
  WorkPtr gather_into_tensor(at::Tensor& output, at::Tensor& input,
                             const ::c10d::GatherOptions& opts) PYCOMMS_OVERRIDE_SINCE_2_14;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const ::c10d::ScatterOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs, const ::c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const ::c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const ::c10d::ReduceScatterOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const ::c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const ::c10d::AllToAllOptions& opts) override;

  // --- Point to point, coalescing (point_to_point.cpp) ---
  WorkPtr send(Tensors& tensors, int peer, int tag) override;
  WorkPtr recv(Tensors& tensors, int peer, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  // --- The group (backend.cpp) ---
  void monitoredBarrier(const ::c10d::BarrierOptions& opts, bool wait_all_ranks) override;
  c10::intrusive_ptr<::c10d::Backend> split(const c10::intrusive_ptr<::c10d::Store>& store,
                                            const std::vector<int>& ranks,
                                            const c10::intrusive_ptr<::c10d::Backend::Options>& opts) override;
  void perform_nocolor_split();
  // A group of the members of several groups, which meet over a store that all of them have.
  c10::intrusive_ptr<::c10d::Backend> merge(const c10::intrusive_ptr<::c10d::Store>& store,
                                            const c10::intrusive_ptr<::c10d::Backend::Options>& opts, const int& rank,
                                            const int& size) override;
  // shrinking.cpp
  c10::intrusive_ptr<::c10d::Backend> shrink(const std::vector<int64_t>& ranks_to_exclude, int flags,
                                             const c10::intrusive_ptr<::c10d::Backend::Options>& opts) override;
  // regrouping.cpp. Handles are those of all members: by their new ranks, or in any order.
  std::string regroup_handle() const;
  struct RegroupArgs {
    int64_t uuid = 0;
    std::vector<std::string> handles;
    bool by_position = true;
    std::chrono::milliseconds timeout = kNoTimeout;
    std::string note = {};  // for the other members: see regroup_notes()
  };
  WorkPtr regroup(const RegroupArgs& args);
  // What the members brought to the last regroup that has succeeded, by new rank.
  std::vector<std::string> regroup_notes() const;
  int64_t generation() const { return generation_->load(std::memory_order_acquire); }
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  bool supportsReconfigure() const override { return true; }
  ::c10d::ReconfigureHandle get_reconfigure_handle() const override { return regroup_handle(); }
  WorkPtr reconfigure(const ::c10d::ReconfigureOptions& opts) override;
#endif
  // window_making.cpp. Collective: a window over this rank's memory, of the same type on all. refusal: why this rank cannot, which
  // all then hear; empty: it can.
  c10::intrusive_ptr<TensorWindow> open_window(const at::Tensor& memory, int slots,
                                               std::optional<std::chrono::milliseconds> timeout, std::string refusal);
#ifdef C10D_BACKEND_HAS_WINDOW
  bool supportsWindow() const override { return true; }
  c10::intrusive_ptr<::c10d::Window> new_window(const std::optional<at::Tensor>& tensor) override;
#endif
  // For windows. Each rank brings `bytes` and gets those of all; and the frame of an operation.
  Error tell_all(OpKind kind, const void* mine, size_t bytes, void* all, Deadline deadline);
  using WindowCall = std::function<EngineResult(const Engine& engine, CommHandle comm, StreamHandle stream)>;
  WorkPtr on_window(OpKind kind, bool is_async, int64_t timeout_ns, at::Device device, at::ArrayRef<at::Tensor> inputs,
                    const WindowCall& call);
  std::shared_ptr<DeviceGroup> device_group(at::Device device);
  void eagerConnectSingleDevice(at::Device device) override;
  void abort() override;
  void shutdown() override;

  // --- Its communicator on a GPU (device_life.cpp)
  void suspend() PYCOMMS_OVERRIDE_SINCE_2_14;
  void resume() PYCOMMS_OVERRIDE_SINCE_2_14;
  std::unordered_map<std::string, uint64_t> getMemoryStats() PYCOMMS_OVERRIDE_SINCE_2_14;
  int64_t comm_ptr();
  // Of what is issued in between nothing runs. Microseconds.
  void start_time_estimate();
  float end_time_estimate();

  void setTimeout(std::chrono::milliseconds timeout) override;
  void addEphemeralTimeout(const std::chrono::milliseconds& timeout) PYCOMMS_OVERRIDE_SINCE_2_14;
  uint64_t getSequenceNumberForGroup() override { return lanes()->main()->sequence(); }
#if !PYCOMMS_TORCH_AT_LEAST(2, 14)
  void setSequenceNumberForGroup() override {}  // for TORCH_DISTRIBUTED_DEBUG=DETAIL; ours start at 0 on every rank
#endif
  ::c10d::ErrorType getError() override;
  c10::intrusive_ptr<::c10d::Backend::Options> getBackendOptions() override { return options_; }
  void enableCollectivesTiming() override { timing_ = true; }
  void registerOnCompletionHook(std::function<void(std::shared_ptr<::c10d::WorkInfo>)>&& hook) override;
  void waitForPendingWorks() override;
#ifdef C10D_BACKEND_HAS_HOOKS
  void registerAbortHook(int64_t id, ::c10d::AbortHook hook) override { lanes()->hooks()->add(id, std::move(hook)); }
  void unregisterAbortHook(int64_t id) override { lanes()->hooks()->remove(id); }
#endif
  std::shared_ptr<c10::Allocator> getMemAllocator() override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

  // --- Memory of GPU tensors (mem_pool.cpp) ---
  void register_mem_pool(const PoolId& pool, bool symmetric);
  void deregister_mem_pool(const PoolId& pool);

 private:
  Backend(std::shared_ptr<Lanes> lanes, c10::intrusive_ptr<GroupOptions> options);
  static CommunicatorOptions communicator_options(int rank, int size, const GroupOptions& options,
                                                  const std::shared_ptr<AbortHooks>& hooks);
  static c10::intrusive_ptr<GroupOptions> own_options(const c10::intrusive_ptr<::c10d::Backend::Options>& given);
  static int64_t to_ns(std::chrono::milliseconds timeout);
  static Error connect(Communicator& communicator, Connect when);
  Error make_shrunk(const std::vector<int>& members, const DeviceGroup* parent, const std::vector<int>& excluded,
                    bool aborts, const GroupOptions& options, std::shared_ptr<Lanes>* lanes);
  // The communicators of the moment, for whoever is not inside.
  std::shared_ptr<Lanes> lanes() const;

  // regrouping.cpp
  static bool waits_for_regroup(const GroupOptions& options);
  Membership checked_membership(const RegroupArgs& args) const;
  struct Regroup {
    Membership members;
    Deadline deadline;
    at::Device device;  // that the caller's thread uses; on a GPU where the group may
    std::string note;
    std::shared_ptr<TensorOp> state;
    std::shared_ptr<std::atomic<bool>> is_live = std::make_shared<std::atomic<bool>>(false);  // it has succeeded
    std::shared_ptr<Lanes> made = nullptr;
  };
  void begin_regroup(Regroup regroup);
  void regroup_now(Regroup regroup);
  std::shared_ptr<Lanes> successor_of(Lanes& old, const Membership& members,
                                      const std::shared_ptr<std::atomic<bool>>& is_live);
  Error prepare(Lanes& made, Deadline deadline);
  // What is made on the way, and of use only until all have ended.
  struct Byproducts {
    std::vector<std::string> notes;
    std::unique_ptr<Communicator> intermediate;
  };
  Error agree(const Regroup& regroup, Lanes& made, bool is_well, Byproducts* byproducts);
  std::shared_ptr<Lanes> exchange_lanes(std::shared_ptr<Lanes> made, const Membership& members,
                                        std::vector<std::string> notes);
  std::shared_ptr<Lanes> successor() const;
  void set_successor(std::shared_ptr<Lanes> lanes);
  void abort_successor(const char* why);
  void end_regroup_thread();
  // regrouping_device.cpp
  Heritage heritage() const;
  std::shared_ptr<DeviceGroup> continue_on_device(const Succession& how, const Lanes& made, at::Device device,
                                                  Deadline deadline, std::unique_ptr<Communicator>* intermediate);

  template <typename Step>
  static void tear_down(std::shared_ptr<Lanes> lanes, Step step);
  void check_member(int rank) const;

  // Whether an operation that is issued now belongs to a coalesced block.
  bool is_in_block() {
    if (block_ == nullptr) [[likely]]
      return false;
    if (block_scope_.has_ended()) close_block();
    return block_ != nullptr;
  }
  // *failed: what could not be issued, and why. It is what the operations of the block end with, too.
  std::shared_ptr<TensorOp> close_block(Error* failed = nullptr);
  void close_block_of_this_thread() {  // before the group ends: nobody else will
    if (block_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id()) close_block();
  }

  // What the frame must know about an operation.
  struct OpArgs {
    OpKind kind;
    bool is_async;
    std::chrono::milliseconds timeout;
    at::ArrayRef<Reduction> reductions = {};  // of its engine calls
    bool has_input = true;                    // false where this rank's tensors are only written
    RecordedArgs recorded = {};

    OpArgs with(const ::c10d::ReduceOp& reduction) && {
      recorded.reduction = c10d_backend::recorded(reduction);
      return std::move(*this);
    }
    OpArgs at_root(int64_t root) && {
      recorded.root = static_cast<int>(root);
      return std::move(*this);
    }
    OpArgs to_peer(int peer, int tag) && {
      recorded.peer = peer;
      recorded.tag = tag;
      return std::move(*this);
    }
    OpArgs in_splits(at::IntArrayRef inputs, at::IntArrayRef outputs) && {
      recorded.input_splits = inputs;
      recorded.output_splits = outputs;
      return std::move(*this);
    }
  };
  template <typename Call>
  WorkPtr collective(const OpArgs& op, TensorList outputs, at::ArrayRef<at::Tensor> inputs, Call&& call);
  template <typename Call>
  WorkPtr on_device(const OpArgs& op, at::Device device, TensorList outputs, at::ArrayRef<at::Tensor> inputs,
                    Call&& call);
  bool serves_gpu() const;
  std::shared_ptr<TensorOp> open_device_block(DeviceCommunicator& operations, const c10::Stream& stream,
                                              const IssueOptions& options);
  std::shared_ptr<TensorOp> close_device_block(Error* failed);
  DeviceGroup& need_device(const char* op);
  [[noreturn]] static void refuse_estimate(OpKind kind);
  void check_thread_of_block(const char* op, bool in_block);
  void check_end_of_block(const char* op) const;
  void refuse_in_block(const char* op);
  void refresh_memory(DeviceGroup& group, OpKind kind);
  void drop_gpu_pool();
  at::Tensor allocate_on_gpu(int64_t size, const at::TensorOptions& options);
  std::vector<DeviceSegment> segments_to_register(DeviceGroup& group, const PoolId& pool, Registrations::Mode mode,
                                                  std::string* refusal);
  void agree_on_segments(const char* op, const std::vector<DeviceSegment>& segments, const std::string& refusal);
  WorkPtr device_barrier(at::Device device, const ::c10d::BarrierOptions& opts);
  template <typename Call>
  WorkPtr request(OpKind kind, const at::Tensor& tensor, const RecordedArgs& recorded, Call&& call);
  c10::intrusive_ptr<Work> make_work(OpKind kind, TensorList outputs, at::ArrayRef<at::Tensor> inputs);

  int64_t timeout_ns(std::chrono::milliseconds timeout) const {
    return timeout.count() > 0 ? to_ns(timeout) : communicator_->timeout();
  }

  recorder::Entry record(const Communicator& communicator, const RecordedOp& op, at::ArrayRef<at::Tensor> inputs,
                         at::ArrayRef<at::Tensor> outputs) {
    if (communicator.recorded_as() != described_) [[unlikely]]
      describe(communicator);
    return record_op(communicator, op, inputs, outputs);
  }
  // torch names a group after it has made its backend.
  void describe(const Communicator& communicator);

  bool checks_values() const { return reports_ != nullptr; }
  CheckedOp checked(OpKind kind) const;
  // On CPU tensors, before an operation is issued.
  void check_values_of(OpKind kind, at::ArrayRef<at::Tensor> inputs) const;
  // On a GPU: what is found is told with the group's next call, too.
  void report_values_of(TensorOp& state);
  void inspect_received(OpKind kind, const at::Tensor& tensor, TensorOp& state) const;
  OpSteps steps_of(const OpArgs& op, at::ArrayRef<at::Tensor> inputs, bool captured) const;

  // Observers: completion hook, timing, ephemeral timeouts. Nothing of this costs anything while nobody watches.
  bool is_watched() const {
    return timing_.load(std::memory_order_relaxed) || onCompletionHook_ != nullptr || ephemeral_.total() != 0;
  }
  void watch(const std::shared_ptr<TensorOp>& state);
  void watch_ended(Work& work, OpKind kind, int64_t started_ns);

  const c10::intrusive_ptr<GroupOptions> options_;
  // A regroup exchanges these, and rank_ and size_, with the gate closed; whoever is inside may use them.
  mutable VisitorsGate visitors_;
  mutable std::mutex lanes_mutex_;              // for whoever is not
  std::shared_ptr<Lanes> lanes_;                // written under lanes_mutex_ as well
  std::shared_ptr<Communicator> communicator_;  // lanes_->main()
  std::shared_ptr<Lanes> successor_;            // guarded by lanes_mutex_: in the making
  const std::string nonce_ = fresh_nonce();     // of this object, in its handles
  // Shared with windows, which belong to one of them.
  const std::shared_ptr<std::atomic<int64_t>> generation_ = std::make_shared<std::atomic<int64_t>>(0);
  std::atomic<int64_t> uuid_{-1};  // of the regroup that made the lanes
  std::atomic<bool> is_regrouping_{false};
  std::vector<std::string> notes_;               // guarded by lanes_mutex_
  std::set<int64_t> used_uuids_;                 // of the thread that regroups
  std::thread regroup_thread_;                   // the same; has ended when is_regrouping_ is false
  const std::shared_ptr<ValueReports> reports_;  // null while nobody asks for the check of values
#if !PYCOMMS_TORCH_AT_LEAST(2, 14)
  struct Merge {
    c10::weak_intrusive_ptr<::c10d::Store> store;
    int rank;
    c10::weak_intrusive_ptr<::c10d::Backend> made;
  };
  std::optional<Merge> last_merge_;  // of the thread that merges
#endif
  EphemeralTimeout ephemeral_;
  uint32_t described_ = 0;  // the last of its groups in the flight recorder that was; of the issuing thread
  std::atomic<bool> timing_{false};
  std::shared_ptr<void> gpu_pool_;  // guarded by the GIL: the torch.cuda.MemPool that allocateTensor takes from

  // Between startCoalescing and endCoalescing; of the issuing thread.
  std::shared_ptr<TensorOp> block_;
  CallerScope block_scope_;
  std::atomic<std::thread::id> block_thread_{};  // nobody's while no block is open
  std::shared_ptr<TensorOp> device_block_;       // what is in the block on the GPU; made by the first such operation
  bool estimating_ = false;                      // the block is one of an estimate
  float estimate_us_ = 0;
  std::unique_ptr<Reaper::Together> together_;  // groups that are aborted while the block is open
};

}  // namespace pycomms::c10d_backend

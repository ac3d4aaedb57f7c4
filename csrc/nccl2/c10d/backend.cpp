// Backend's life: construction, splitting, closing, timeouts, hooks. Operations are in the files beside this one.
#include "nccl2/c10d/backend.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/safe_numerics.h>

#include <algorithm>

#include "base/thread.h"
#include "nccl2/c10d/convert.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/monitored_barrier.h"
#include "nccl2/c10d/python_hooks.h"
#include "nccl2/c10d/shared_allocator.h"
#include "nccl2/c10d/store_rendezvous.h"
#include "nccl2/c10d/work.h"
#include "recorder/dumper.h"

namespace pycomms::c10d_backend {

int64_t Backend::to_ns(std::chrono::milliseconds timeout) {
  return std::min<int64_t>(timeout.count(), kForever / kMillisecond) * kMillisecond;
}

c10::intrusive_ptr<GroupOptions> Backend::own_options(const c10::intrusive_ptr<::c10d::Backend::Options>& given) {
  if (auto ours = c10::dynamic_intrusive_pointer_cast<GroupOptions>(given))
    return c10::make_intrusive<GroupOptions>(*ours);
  // Of another backend: what all backends have in common counts.
  auto options = c10::make_intrusive<GroupOptions>(given->timeout);
  options->group_name = given->group_name;
  options->group_desc = given->group_desc;
  options->global_ranks_in_group = given->global_ranks_in_group;
  return options;
}

namespace {

std::shared_ptr<ValueReports> reports_for(const GroupOptions& options) {
  return options.nan_check.value_or(NanCheck::kOff) == NanCheck::kOff ? nullptr : std::make_shared<ValueReports>();
}

}  // namespace

bool Backend::waits_for_regroup(const GroupOptions& options) {
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  return options.enable_reconfigure;
#else
  static_cast<void>(options);
  return false;
#endif
}

CommunicatorOptions Backend::communicator_options(int rank, int size, const GroupOptions& options,
                                                  const std::shared_ptr<AbortHooks>& hooks) {
  CommunicatorOptions result;
  result.rank = rank;
  result.size = size;
  result.group = options.group_name.empty() ? "(unnamed)" : options.group_name;
  result.timeout = to_ns(options.timeout);
  result.on_failure = [hooks](const Error& failure) {
    recorder::Dumper::instance().request(failure.detail().message);
    hooks->run();
  };
  result.interrupted = &interrupted;
  result.ranks_per_root = options.ranks_per_root;
  recorder::GroupInfo record;
  record.name = result.group;
  record.description = options.group_desc;
  record.device = "cpu";
  record.ranks.assign(options.global_ranks_in_group.begin(), options.global_ranks_in_group.end());
  record.rank = rank;
  record.size = size;
  if (size > 0) result.record = std::move(record);
  return result;
}

Backend::Backend(c10::intrusive_ptr<::c10d::Store> store, int rank, int size, c10::intrusive_ptr<GroupOptions> options,
                 const Engine& engine, DeviceRuntime& runtime)
    : ::c10d::Backend(rank, size),
      options_(std::move(options)),
      lanes_([&] {
        auto hooks = std::make_shared<AbortHooks>();
        auto main = std::make_shared<Communicator>(engine, runtime, communicator_options(rank, size, *options_, hooks));
        if (!waits_for_regroup(*options_)) {
          main->set_rendezvous(std::make_unique<StoreRendezvous>(store, options_->group_name, rank, size));
        }
        return std::make_shared<Lanes>(std::move(store), std::move(main), std::move(hooks));
      }()),
      communicator_(lanes_->main()),
      reports_(reports_for(*options_)) {
  init();
  remember_group(lanes_);
  if (!waits_for_regroup(*options_)) throw_if(connect(*communicator_, options_->connect));
}

Error Backend::connect(Communicator& communicator, Connect when) {
  if (when == Connect::kLazy) return {};
  Error error = communicator.start();
  if (error || when != Connect::kEager) return error;
  return communicator.become_ready(Deadline::after(communicator.timeout()));
}

Backend::Backend(std::shared_ptr<Lanes> lanes, c10::intrusive_ptr<GroupOptions> options)
    : ::c10d::Backend(lanes->main()->rank(), lanes->main()->size()),
      options_(std::move(options)),
      lanes_(std::move(lanes)),
      communicator_(lanes_->main()),
      reports_(reports_for(*options_)) {
  init();
  remember_group(lanes_);
}

Backend::~Backend() {
  const ReleaseGil gil;  // threads that are to end may want it
  close_block_of_this_thread();
  end_regroup_thread();
  // The lanes go with it: here, and not when the members go, for a thread of theirs may want the GIL.
  tear_down(std::move(lanes_), [](Lanes& lanes) { lanes.abort("the group was destroyed"); });
}

// A callback that ends a group runs on a thread that the group itself must join: another one does it then.
template <typename Step>
void Backend::tear_down(std::shared_ptr<Lanes> lanes, Step step) {
  if (!OpState::is_running_continuations()) return step(*lanes);
  // Not in the thread's function: if no thread can be had, that is destroyed here, and what it holds would be joined.
  auto* const kept = new std::shared_ptr<Lanes>(std::move(lanes));
  auto thread = start_thread("pycomms-end", [kept, step] {
    step(**kept);
    delete kept;
  });
  // It owns what it uses. Without a thread the group is better leaked than blocked.
  if (thread.is_ok()) thread.take().detach();
}

// torch aborts all groups in a block of the default group: their communicators are aborted as one group of the engine, with
// that of the default group.
void Backend::abort() {
  const auto together = together_ != nullptr && together_->is_of_this_thread() ? std::move(together_) : nullptr;
  close_block_of_this_thread();
  constexpr const char* kWhy = "the group was aborted by this process";
  abort_successor(kWhy);
  tear_down(lanes(), [](Lanes& lanes) { lanes.abort(kWhy); });
  drop_gpu_pool();
}

// A regroup that is in progress comes to nothing.
void Backend::abort_successor(const char* why) {
  if (const auto successor = this->successor()) tear_down(successor, [why](Lanes& lanes) { lanes.abort(why); });
}

void Backend::shutdown() {
  if (block_ != nullptr) close_block();  // nobody will
  abort_successor("the group was shut down by this process");
  tear_down(lanes(), [](Lanes& lanes) { lanes.shutdown(); });
  drop_gpu_pool();
}

// --- Splitting -------------------------------------------------------------------------------------------------------

c10::intrusive_ptr<::c10d::Backend> Backend::split(const c10::intrusive_ptr<::c10d::Store>& store,
                                                   const std::vector<int>& ranks,
                                                   const c10::intrusive_ptr<::c10d::Backend::Options>& opts) {
  const Visit inside(visitors_);
  if (ranks.empty()) throw_value_error("split", "the list of ranks is empty");
  for (const int rank : ranks) check_member(rank);
  if (lanes_->device_if_made() != nullptr) check_thread_of_block("split", false);
  const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
  if (mine == ranks.end()) {
    perform_nocolor_split();
    return nullptr;
  }
  auto options = own_options(opts != nullptr ? opts : getBackendOptions());
  auto hooks = std::make_shared<AbortHooks>();
  const int rank = static_cast<int>(mine - ranks.begin());
  // The groups of one split are disjoint, so their smallest ranks differ.
  const int color = *std::min_element(ranks.begin(), ranks.end());
  std::unique_ptr<Communicator> child;
  throw_if(communicator_->split(color, communicator_options(rank, static_cast<int>(ranks.size()), *options, hooks),
                                rank, &child));
  auto lanes = std::make_shared<Lanes>(store, std::shared_ptr(std::move(child)), hooks);
  if (const auto parent = lanes_->device_if_made()) {
    const c10::OptionalDeviceGuard here(parent->device());
    CommunicatorOptions on_gpu = communicator_options(rank, static_cast<int>(ranks.size()), *options, hooks);
    const Members members = Lanes::serve(lanes->main(), &on_gpu);
    throw_if(parent->communicator().split(color, on_gpu, rank, &child));
    lanes->adopt(DeviceGroup::around(parent->device(), options->is_high_priority_stream, std::move(child), members));
  }
  return c10::intrusive_ptr<Backend>::unsafe_steal_from_new(new Backend(std::move(lanes), std::move(options)));
}

void Backend::perform_nocolor_split() {
  const Visit inside(visitors_);
  const CommunicatorOptions nobody = communicator_options(0, 0, *options_, lanes_->hooks());
  std::unique_ptr<Communicator> none;
  throw_if(communicator_->split(nccl_abi::kSplitNoColor, nobody, 0, &none));
  if (const auto on_gpu = lanes_->device_if_made()) {
    const c10::OptionalDeviceGuard here(on_gpu->device());
    throw_if(on_gpu->communicator().split(nccl_abi::kSplitNoColor, nobody, 0, &none));
  }
}

c10::intrusive_ptr<::c10d::Backend> Backend::merge(const c10::intrusive_ptr<::c10d::Store>& store,
                                                   const c10::intrusive_ptr<::c10d::Backend::Options>& opts,
                                                   const int& rank, const int& size) {
  const Visit inside(visitors_);
  if (store == nullptr) throw_value_error("merge", "store is None: the members of both groups need one to meet over");
  if (size < 1 || rank < 0 || rank >= size) {
    throw_value_error("merge", "rank " + std::to_string(rank) + " of " + std::to_string(size) + " makes no group");
  }
#if !PYCOMMS_TORCH_AT_LEAST(2, 14)
  // This torch asks once for each kind of device, and two groups would mix up their ids in the store. A rank comes to a
  // store once.
  if (last_merge_ && last_merge_->rank == rank && last_merge_->store.lock() == store) {
    if (auto made = last_merge_->made.lock()) return made;
  }
#endif
  auto options = own_options(opts != nullptr ? opts : getBackendOptions());
  auto made = c10::make_intrusive<Backend>(store, rank, size, std::move(options), communicator_->engine(),
                                           communicator_->runtime());
#if !PYCOMMS_TORCH_AT_LEAST(2, 14)
  last_merge_.emplace(Merge{c10::weak_intrusive_ptr(store), rank, c10::weak_intrusive_ptr<::c10d::Backend>(made)});
#endif
  return made;
}

void Backend::check_member(int rank) const {
  if (rank < 0 || rank >= size_) {
    throw_value_error("split",
                      "rank " + std::to_string(rank) + " is not in the parent group of " + std::to_string(size_));
  }
}

void Backend::eagerConnectSingleDevice(at::Device device) {
  const Visit inside(visitors_);
  throw_if(communicator_->become_ready(Deadline::after(communicator_->timeout())));
  if (!device.is_cuda()) return;
  if (!device.has_index()) device = c10::impl::VirtualGuardImpl(device.type()).getDevice();
  const c10::OptionalDeviceGuard here(device);
  throw_if(device_group(device)->communicator().become_ready(Deadline::after(communicator_->timeout())));
}

// --- Timeouts and observers ------------------------------------------------------------------------------------------

void Backend::setTimeout(std::chrono::milliseconds timeout) {
  const Visit inside(visitors_);
  options_->timeout = timeout;
  communicator_->set_timeout(to_ns(timeout));
}

void Backend::addEphemeralTimeout(const std::chrono::milliseconds& timeout) { ephemeral_.add(to_ns(timeout)); }

::c10d::ErrorType Backend::getError() {
  const Visit inside(visitors_);
  const Error error = communicator_->first_error();
  if (!error || error.detail().kind == ErrorKind::kClosed) return ::c10d::ErrorType::SUCCESS;
  switch (error.detail().kind) {
    case ErrorKind::kTimeout:
      return ::c10d::ErrorType::TIMEOUT;
    case ErrorKind::kPeerFailure:
    case ErrorKind::kRevoked:
      return ::c10d::ErrorType::REMOTE_ERROR;
    case ErrorKind::kUsage:
    case ErrorKind::kMismatch:
    case ErrorKind::kClosed:
    case ErrorKind::kInterrupted:
    case ErrorKind::kNotFinite:
    case ErrorKind::kSystem:
      return ::c10d::ErrorType::COMM_ERROR;
  }
  return ::c10d::ErrorType::COMM_ERROR;
}

void Backend::registerOnCompletionHook(std::function<void(std::shared_ptr<::c10d::WorkInfo>)>&& hook) {
  TORCH_CHECK(onCompletionHook_ == nullptr, "the group has a completion hook already");
  onCompletionHook_ = std::move(hook);
}

void Backend::waitForPendingWorks() {
  const Visit inside(visitors_);
  if (communicator_->wait_for_pending(Deadline::after(communicator_->timeout()))) return;
  rethrow_pending_signal();
  TORCH_CHECK(false, "waitForPendingWorks: operations of group ", communicator_->group(),
              " are still in flight after its timeout");
}

namespace {

using CompletionHook = std::function<void(std::shared_ptr<::c10d::WorkInfo>)>;

void report(const CompletionHook& hook, OpKind kind, uint64_t sequence, int64_t started_ns, int64_t ended_ns) {
  using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC, like now_ns()
  const auto point = [](int64_t ns) { return Clock::time_point(std::chrono::nanoseconds(ns)); };
  hook(std::make_shared<::c10d::WorkInfo>(
      to_op_type(kind), sequence, point(started_ns), point(ended_ns),
      std::chrono::duration<float>(static_cast<float>(ended_ns - started_ns) / 1e9f)));
}

}  // namespace

void Backend::watch(const std::shared_ptr<TensorOp>& state) {
  if (ephemeral_.total() != 0) state->then([done = ephemeral_.on_completion()](const OpState&) { done(); });
  if (onCompletionHook_ == nullptr) return;
  state->then([hook = onCompletionHook_](const OpState& ended) {
    report(hook, ended.kind(), ended.sequence(), ended.started_ns(), ended.ended_ns());
  });
}

void Backend::watch_ended(Work& work, OpKind kind, int64_t started_ns) {
  const int64_t ended_ns = now_ns();
  work.set_times(started_ns, ended_ns);
  if (ephemeral_.total() != 0) ephemeral_.on_completion()();
  if (onCompletionHook_ != nullptr) report(onCompletionHook_, kind, work.getSequencenumber(), started_ns, ended_ns);
}

// --- The rest --------------------------------------------------------------------------------------------------------

void Backend::monitoredBarrier(const ::c10d::BarrierOptions& opts, bool wait_all_ranks) {
  const Visit inside(visitors_);
  const int64_t timeout = opts.timeout == ::c10d::kUnsetTimeout ? communicator_->timeout() : to_ns(opts.timeout);
  std::vector<int> missing;
  const uint64_t expected = communicator_->sequence() + 1;
  const recorder::Entry entry = record(*communicator_, {OpKind::kBarrier, {}, timeout, false, false, true}, {}, {});
  const Error error = communicator_->monitored_barrier(timeout, &missing);
  end_record(entry, error, communicator_->sequence() < expected);
  if (!error) return;
  if (error.detail().kind != ErrorKind::kTimeout) throw_error(error);
  throw_error(describe_missing(error, rank_, timeout, std::move(missing), wait_all_ranks));
}

void Backend::describe(const Communicator& communicator) {
  described_ = communicator.recorded_as();
  if (recorder::Ring* ring = recorder::process_ring()) ring->describe_group(described_, getGroupDesc());
}

std::shared_ptr<c10::Allocator> Backend::getMemAllocator() {
  // One for the process: torch keeps pointers to allocators.
  static const auto allocator = std::make_shared<SharedAllocator>(communicator_->engine().nccl);
  return allocator;
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  const Visit inside(visitors_);
  TORCH_CHECK_VALUE(size >= 0, "allocate_tensor: size must not be negative, got ", size);
  if (options.device().is_cuda()) return allocate_on_gpu(size, options);
  TORCH_CHECK_VALUE(options.device().is_cpu(), "allocate_tensor: device must be a CPU or a GPU, got ",
                    options.device());
  size_t bytes = 0;
  TORCH_CHECK_VALUE(!c10::mul_overflows(static_cast<size_t>(size), options.dtype().itemsize(), &bytes),
                    "allocate_tensor: size is ", size, ", and so many elements have more bytes than can be counted");
  auto memory = std::make_shared<c10::DataPtr>(getMemAllocator()->allocate(std::max<size_t>(bytes, 1)));
  return at::from_blob(memory->get(), {size}, [memory](void*) {}, options);
}

}  // namespace pycomms::c10d_backend

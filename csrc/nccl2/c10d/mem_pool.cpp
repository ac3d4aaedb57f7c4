// Backend's memory of GPU tensors: pools of torch that NCCL may use in place, and tensors in such a pool.
#include <ATen/Context.h>
#include <c10/core/AllocatorConfig.h>

#include "nccl2/c10d/allocator_events.h"
#include "nccl2/c10d/frame.h"
#include "nccl2/c10d/gpu_memory.h"

namespace pycomms::c10d_backend {
namespace {

using Mode = Registrations::Mode;

// What ranks compare before they make windows together: [refused, segments, bytes, sizes in their order].
constexpr int64_t kFacts = 4;

std::vector<int64_t> facts_about(const std::vector<DeviceSegment>& segments, bool refused) {
  uint64_t bytes = 0;
  uint64_t sizes = 0;
  for (const DeviceSegment& segment : segments) {
    bytes += segment.bytes;
    sizes = sizes * 1000003 + segment.bytes;
  }
  return {refused ? 1 : 0, static_cast<int64_t>(segments.size()), static_cast<int64_t>(bytes),
          static_cast<int64_t>(sizes)};
}

void throw_answer(const char* op, const Registrations::Answer& answer) {
  if (!answer.is_ok()) throw_value_error(op, answer.why);
}

}  // namespace

bool Backend::supportsTensorAlloc(c10::DeviceIndex device) {
  if (device < 0 || !serves_gpu()) return true;  // the CPU
  Result<const Engine*> nccl = loaded_nccl();
  return nccl.is_ok() && Registrations(*nccl.value(), device).can_register(Mode::kLocal).is_ok();
}

// Before an operation: registers what has come and drops what is gone, if the group wants any of it.
void Backend::refresh_memory(DeviceGroup& group, OpKind kind) {
  Registrations& memory = *group.communicator().memory();
  if (options_->register_segments && !memory.follows_all()) {
    constexpr const char* kOption = "register_segments";
    if (c10::CachingAllocator::AcceleratorAllocatorConfig::use_expandable_segments())
      throw_value_error(kOption,
                        "memory that grows in place cannot be registered; turn off the expandable_segments of "
                        "torch's allocator, or this option");
    throw_answer(kOption, memory.can_register(Mode::kLocal));
    follow_torchs_segments(kOption);
    memory.follow_all();
  }
  if (!memory.is_stale()) return;
  throw_if(group.operations().refresh_memory(kind));
  if (memory.refused() > 0) {
    TORCH_WARN_ONCE("NCCL did not register ", memory.refused(), " segments of ", group.device(),
                    "'s memory; operations on tensors there are slower");
  }
}

void Backend::register_mem_pool(const PoolId& pool, bool symmetric) {
  const Visit inside(visitors_);
  constexpr const char* kOp = "register_mem_pool";
  const Mode mode = symmetric ? Mode::kSymmetric : Mode::kLocal;
  refuse_in_block(kOp);
  TORCH_CHECK(serves_gpu(), kOp, ": there is no GPU");
  at::globalContext().lazyInitDevice(at::kCUDA);
  follow_torchs_segments(kOp);
  const auto made = lanes_->device_if_made();
  const auto group = made != nullptr ? made : device_group(c10::impl::VirtualGuardImpl(at::kCUDA).getDevice());
  const c10::OptionalDeviceGuard here(group->device());
  throw_answer(kOp, group->communicator().memory()->can_register(mode));
  throw_if(group->operations().refresh_memory(OpKind::kRegisterPool));
  std::string refusal;
  const auto segments = segments_to_register(*group, pool, mode, &refusal);
  if (symmetric && size_ > 1) agree_on_segments(kOp, segments, refusal);
  if (!refusal.empty()) throw_value_error(kOp, refusal);
  throw_if(group->operations().register_memory(pool, segments, mode));
}

// Those of the pool that are not registered yet; empty and a reason when the pool cannot be.
std::vector<DeviceSegment> Backend::segments_to_register(DeviceGroup& group, const PoolId& pool, Mode mode,
                                                         std::string* refusal) {
  Registrations& memory = *group.communicator().memory();
  const auto segments = DeviceSegments::instance().of_pool(pool);
  const Mode before = memory.mode_of(pool);
  if (DeviceSegments::instance().is_expandable(pool)) {
    *refusal =
        "the pool has expandable segments, which cannot be registered; make it with backend.mem_allocator, or turn off "
        "the expandable_segments of torch's allocator";
  } else if (segments.empty()) {
    *refusal = "the pool has no memory yet: allocate first, then register";
  } else if (before == Mode::kSymmetric && mode == Mode::kLocal) {
    *refusal = "the pool is registered with symm=True; deregister it first, or say symm=True again";
  }
  for (const DeviceSegment& segment : segments) {
    if (segment.device != group.device().index()) {
      *refusal = "the pool has memory on cuda:" + std::to_string(segment.device) + ", and the group works with " +
                 group.device().str();
    } else if (mode == Mode::kSymmetric && !HeldMemory::instance().owns(segment.address)) {
      *refusal = "symm=True needs memory of NCCL's own: make the pool with torch.cuda.MemPool(backend.mem_allocator)";
    }
  }
  if (!refusal->empty()) return {};
  return memory.missing(segments, mode);
}

// NCCL would hang if ranks came with different memory. Through the group's operations on the CPU.
void Backend::agree_on_segments(const char* op, const std::vector<DeviceSegment>& segments,
                                const std::string& refusal) {
  std::vector<int64_t> facts = facts_about(segments, !refusal.empty());
  std::vector<int64_t> everyones(kFacts * size_);
  at::Tensor mine = at::from_blob(facts.data(), {kFacts}, at::kLong);
  at::Tensor all = at::from_blob(everyones.data(), {kFacts * size_}, at::kLong);
  ::c10d::AllgatherOptions options;
  options.asyncOp = false;
  _allgather_base(all, mine, options)->wait();
  if (!refusal.empty()) throw_value_error(op, refusal);
  const auto about = [&](int rank) { return &everyones[rank * kFacts]; };
  const auto named = [&](int rank) {
    return "rank " + std::to_string(rank) + " has " + std::to_string(about(rank)[1]) + " new segments of " +
           std::to_string(about(rank)[2]) + " bytes";
  };
  for (int rank = 0; rank < size_; ++rank) {
    if (about(rank)[0] != 0)
      throw_value_error(op, "rank " + std::to_string(rank) + " refused it, its own error says why");
    if (!std::equal(facts.begin(), facts.end(), about(rank)))
      throw_value_error(op, "with symm=True all ranks must have memory of the same sizes, made in the same order: " +
                                named(rank_) + ", " + named(rank));
  }
}

void Backend::deregister_mem_pool(const PoolId& pool) {
  const Visit inside(visitors_);
  constexpr const char* kOp = "deregister_mem_pool";
  const auto group = lanes_->device_if_made();
  const Mode mode = group == nullptr ? Mode::kNone : group->communicator().memory()->mode_of(pool);
  if (mode == Mode::kNone) throw_value_error(kOp, "the pool is not registered with this group");
  refuse_in_block(kOp);
  // What a group that has failed had registered goes with it.
  if (communicator_->first_error() || group->communicator().first_error()) return;
  const c10::OptionalDeviceGuard here(group->device());
  if (mode == Mode::kSymmetric && size_ > 1) {
    // Until all have come, peers may be reading.
    throw_if(group->operations().wait_until_passed(OpKind::kDeregisterPool));
    agree_on_segments(kOp, {}, {});
  }
  throw_if(group->operations().deregister_memory(pool));
}

// torch keeps the memory of a pool that is gone for as long as there are tensors in it.
void Backend::drop_gpu_pool() {
  if (gpu_pool_ == nullptr) return;
  const pybind11::gil_scoped_acquire gil;
  gpu_pool_ = nullptr;
}

at::Tensor Backend::allocate_on_gpu(int64_t size, const at::TensorOptions& options) {
  constexpr const char* kOp = "allocate_tensor";
  const c10::impl::VirtualGuardImpl gpu(at::kCUDA);
  const auto device = options.device().has_index() ? options.device() : gpu.getDevice();
  const auto group = device_group(device);
  Registrations& memory = *group->communicator().memory();
  throw_answer(kOp, memory.can_register(Mode::kLocal));
  at::globalContext().lazyInitDevice(at::kCUDA);
  follow_torchs_segments(kOp);
  const pybind11::gil_scoped_acquire gil;
  if (gpu_pool_ == nullptr) {
    auto pool = make_nccl_pool();
    if (gpu_pool_ == nullptr) gpu_pool_ = std::move(pool);  // another thread may have had the GIL meanwhile
    memory.follow(pool_id(gpu_pool_));
  }
  return allocate_in(gpu_pool_, size, options.device(device));
}

}  // namespace pycomms::c10d_backend

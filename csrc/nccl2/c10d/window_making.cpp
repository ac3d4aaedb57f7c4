// How a group gets a window.
#include <cstring>
#include <string_view>

#include "nccl2/c10d/backend.h"
#include "nccl2/c10d/convert.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/window_memory.h"
#include "nccl2/c10d/window_on_device.h"
#include "nccl2/c10d/window_on_host.h"
#include "nccl2/c10d/window_regions.h"

namespace pycomms::c10d_backend {
namespace {

// What each rank tells the others first, so that all make the window or none does.
struct Offer {
  int32_t type;    // at::ScalarType
  int32_t device;  // c10::DeviceType
  uint64_t bytes;
  char refusal[128];  // why this rank cannot take part; empty: it can
};
static_assert(sizeof(Offer) <= hostccl::kExchangeBytes);

Offer offer_of(const at::Tensor& memory) {
  return {
      static_cast<int32_t>(memory.scalar_type()), static_cast<int32_t>(memory.device().type()), memory.nbytes(), {}};
}

std::string describe(const Offer& offer) {
  return std::string(c10::toString(static_cast<at::ScalarType>(offer.type))) + " on " +
         c10::DeviceTypeName(static_cast<c10::DeviceType>(offer.device), true);
}

// Every rank sees the same, so that all raise.
void check_offers(const Communicator& group, const std::vector<Offer>& offers) {
  const Offer& mine = offers[static_cast<size_t>(group.rank())];
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    const Offer& theirs = offers[rank];
    const std::string who = "rank " + std::to_string(rank);
    std::string problem;
    if (theirs.refusal[0] != '\0') {
      problem = who + " cannot make its window: " +
                std::string(theirs.refusal, strnlen(theirs.refusal, sizeof(theirs.refusal)));
    } else if (theirs.type != mine.type || theirs.device != mine.device) {
      problem =
          who + " makes it of " + describe(theirs) + ", rank " + std::to_string(group.rank()) + " of " + describe(mine);
    }
    if (problem.empty()) continue;
    throw_error(window_error(group, ErrorKind::kMismatch, OpKind::kWindow, problem, {static_cast<int>(rank)}));
  }
}

}  // namespace

c10::intrusive_ptr<TensorWindow> Backend::open_window(const at::Tensor& memory, int slots,
                                                      std::optional<std::chrono::milliseconds> timeout,
                                                      std::string refusal) {
  const Visit inside(visitors_);
  refuse_in_block("window");
  const auto deadline = Deadline::after(timeout_ns(timeout.value_or(kNoTimeout)));
  Offer mine{};
  std::exception_ptr why;
  std::shared_ptr<DeviceGroup> device;
  hostccl::WindowOptions options;
  std::shared_ptr<void> kept;
  options.slots = slots;
  try {
    TORCH_CHECK_VALUE(refusal.empty(), refusal);
    check_window_memory(memory);
    if (memory.is_cuda()) device = WindowOnDevice::group_for(*this, memory.device());
    if (!memory.is_cuda()) kept = make_reachable(memory, *getMemAllocator(), &options);
    mine = offer_of(memory);
  } catch (const c10::Error& error) {
    // The others wait for this rank: it tells them.
    why = std::current_exception();
    std::string_view(error.what_without_backtrace()).copy(mine.refusal, sizeof(mine.refusal) - 1);
  }
  std::vector<Offer> offers(static_cast<size_t>(size_));
  Error told = tell_all(OpKind::kWindow, &mine, sizeof(mine), offers.data(), deadline);
  if (why) std::rethrow_exception(why);
  throw_if(std::move(told));
  check_offers(*communicator_, offers);
  const TensorWindow::Generation now{generation(), generation_};
  if (device != nullptr) {
    std::vector<uint64_t> bytes;
    for (const Offer& one : offers) bytes.push_back(one.bytes);
    return WindowOnDevice::make(*this, std::move(device), memory, std::move(bytes), now);
  }
  std::shared_ptr<HostWindow> host;
  throw_if(HostWindow::make(communicator_, memory.data_ptr(), memory.nbytes(), options, deadline.left(), &host));
  return c10::make_intrusive<WindowOnHost>(std::move(host), std::move(kept), memory, slots, now);
}

Error Backend::tell_all(OpKind kind, const void* mine, size_t bytes, void* all, Deadline deadline) {
  const Visit inside(visitors_);
  if (Error error = communicator_->become_ready(deadline)) return error;
  return communicator_->exchange(kind, mine, bytes, all, deadline);
}

}  // namespace pycomms::c10d_backend

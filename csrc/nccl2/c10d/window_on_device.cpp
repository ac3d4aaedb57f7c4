#include "nccl2/c10d/window_on_device.h"

#include <ATen/ops/from_blob.h>

#include "nccl2/c10d/frame.h"
#include "nccl2/c10d/window_regions.h"

namespace pycomms::c10d_backend {
namespace {

std::string version_needed(const Engine& engine) {
  return "NCCL 2.29 or newer is needed for windows, and the one that is loaded is " +
         std::to_string(engine.version / 10000) + "." + std::to_string(engine.version / 100 % 100);
}

}  // namespace

WindowOnDevice::WindowOnDevice(c10::intrusive_ptr<Backend> backend, std::shared_ptr<DeviceGroup> device,
                               at::Tensor local, std::vector<uint64_t> bytes, Generation generation)
    : TensorWindow(device->operations().communicator(), std::move(local), kSlots, std::move(generation)),
      backend_(std::move(backend)),
      device_(std::move(device)),
      bytes_(std::move(bytes)) {}

std::shared_ptr<DeviceGroup> WindowOnDevice::group_for(Backend& backend, at::Device device) {
  auto group = backend.device_group(device);
  const Engine& engine = group->communicator().engine();
  if (engine.nccl.comm_window_register == nullptr || engine.nccl.put_signal == nullptr)
    throw_value_error("window", version_needed(engine));
  return group;
}

c10::intrusive_ptr<TensorWindow> WindowOnDevice::make(Backend& backend, std::shared_ptr<DeviceGroup> device,
                                                      const at::Tensor& memory, std::vector<uint64_t> bytes,
                                                      Generation generation) {
  const c10::OptionalDeviceGuard here(device->device());
  auto window =
      c10::make_intrusive<WindowOnDevice>(c10::intrusive_ptr<Backend>::unsafe_reclaim_from_nonowning(&backend), device,
                                          memory, std::move(bytes), std::move(generation));
  nccl_abi::WindowHandle handle = nullptr;
  throw_if(device->operations().register_window(memory.data_ptr(), memory.nbytes(), &handle));
  window->handle_.store(handle, std::memory_order_release);
  return window;
}

nccl_abi::WindowHandle WindowOnDevice::open_handle(OpKind kind) const {
  check_current(kind);
  const auto handle = handle_.load(std::memory_order_acquire);
  if (handle != nullptr) return handle;
  throw_error(window_error(*group_, ErrorKind::kClosed, kind, "the window is closed"));
}

hostccl::WindowPiece WindowOnDevice::piece_of(OpKind kind, const Place& place, const at::Tensor& other,
                                              int peer) const {
  const char* const op = traits(kind).name;
  std::vector<hostccl::WindowPiece> pieces;
  if (const auto* offset = std::get_if<int64_t>(&place)) {
    pieces.push_back({bytes_before(kind, "offset", *offset), other.nbytes()});
  } else {
    append_region(op, "offset", local_, std::get<at::Tensor>(place), other,
                  [&pieces](const hostccl::WindowPiece& piece) { pieces.push_back(piece); });
  }
  if (pieces.empty()) return {0, 0};
  if (pieces.size() > 1) throw_value_error(op, "offset is a view with gaps, and NCCL puts one block of memory");
  check_inside(op, pieces.front(), peer, bytes_[static_cast<size_t>(peer)]);
  return pieces.front();
}

TensorWindow::WorkPtr WindowOnDevice::put(const at::Tensor& source, int peer, const Place& place,
                                          std::optional<int> signal, const How& how) {
  constexpr OpKind kind = OpKind::kPut;
  const auto handle = open_handle(kind);
  checked_peer(kind, peer);
  check_window_tensor(traits(kind).name, "src", source, local_);
  if (signal != 0) {
    throw c10::NotImplementedError("nccl2 put: on a GPU a put always signals, as NCCL's does: pass signal=0", nullptr);
  }
  const hostccl::WindowPiece piece = piece_of(kind, place, source, peer);
  const at::Tensor from = source.contiguous();
  // As bytes: NCCL moves them, whatever their type.
  return backend_->on_window(kind, how.is_async, timeout_of(how), local_.device(), from,
                             [handle, peer, piece, from](const Engine& engine, CommHandle comm, StreamHandle stream) {
                               return engine.nccl.put_signal(from.data_ptr(), piece.bytes, nccl_abi::kInt8, peer,
                                                             handle, piece.offset, 0, 0, 0, comm, stream);
                             });
}

TensorWindow::WorkPtr WindowOnDevice::get(const at::Tensor& destination, int peer, const Place& place, const How& how) {
  constexpr OpKind kind = OpKind::kGet;
  open_handle(kind);
  checked_peer(kind, peer);
  check_window_tensor(traits(kind).name, "dst", destination, local_);
  const hostccl::WindowPiece piece = piece_of(kind, place, destination, peer);
  const at::Tensor from = remote(peer).flatten().narrow(0, static_cast<int64_t>(piece.offset / item_),
                                                        static_cast<int64_t>(piece.bytes / item_));
  copy_without_grad(destination, from.view(destination.sizes()));
  if (!how.is_async) return nullptr;
  auto work = c10::make_intrusive<Work>(rank(), kind, TensorList{destination}, nullptr);
  work->set_ended(0);  // it is on the current stream
  return work;
}

TensorWindow::WorkPtr WindowOnDevice::signal(int peer, int slot, int64_t value, hostccl::SignalChange change,
                                             const How& how) {
  constexpr OpKind kind = OpKind::kSignal;
  open_handle(kind);
  checked_peer(kind, peer);
  if (slot != 0 || value != 1 || change != hostccl::SignalChange::kAdd) {
    throw c10::NotImplementedError("nccl2 signal: NCCL adds 1 to slot 0, and can do nothing else", nullptr);
  }
  return backend_->on_window(kind, how.is_async, timeout_of(how), local_.device(), {},
                             [peer](const Engine& engine, CommHandle comm, StreamHandle stream) {
                               return engine.nccl.signal(peer, 0, 0, 0, comm, stream);
                             });
}

TensorWindow::WorkPtr WindowOnDevice::wait_signal(std::vector<int> peers, bool all_of, int slot, int64_t count, size_t*,
                                                  const How& how) {
  constexpr OpKind kind = OpKind::kWaitSignal;
  open_handle(kind);
  if (!all_of || slot != 0) {
    throw c10::NotImplementedError("nccl2 wait_signal: NCCL waits for all of the peers, in slot 0", nullptr);
  }
  if (count < 1 || count > INT32_MAX) {
    throw_value_error(traits(kind).name, "count is " + std::to_string(count) + ", expected 1 to 2147483647");
  }
  std::vector<nccl_abi::WaitSignal> wanted;
  for (const int peer : peers) wanted.push_back({static_cast<int>(count), checked_peer(kind, peer), 0, 0});
  if (wanted.empty()) {  // nobody is waited for
    if (!how.is_async) return nullptr;
    auto work = c10::make_intrusive<Work>(rank(), kind, TensorList(), nullptr);
    work->set_ended(0);
    return work;
  }
  return backend_->on_window(kind, how.is_async, timeout_of(how), local_.device(), {},
                             [wanted](const Engine& engine, CommHandle comm, StreamHandle stream) mutable {
                               return engine.nccl.wait_signal(static_cast<int>(wanted.size()), wanted.data(), comm,
                                                              stream);
                             });
}

void* WindowOnDevice::pointer_to(int peer) const {
  if (peer == rank()) return local_.data_ptr();
  const auto ask = group_->engine().nccl.get_peer_device_pointer;
  void* pointer = nullptr;
  if (ask == nullptr || ask(handle_.load(std::memory_order_acquire), 0, peer, &pointer) != nccl_abi::kSuccess)
    return nullptr;
  return pointer;
}

hostccl::WindowAttr WindowOnDevice::attr(int peer) const {
  constexpr OpKind kind = OpKind::kAttr;
  open_handle(kind);
  checked_peer(kind, peer);
  void* const pointer = pointer_to(peer);
  const auto reach = peer == rank()       ? hostccl::WindowReach::kSelf
                     : pointer != nullptr ? hostccl::WindowReach::kMapped
                                          : hostccl::WindowReach::kServed;
  return {reach, bytes_[static_cast<size_t>(peer)], pointer, false};
}

at::Tensor WindowOnDevice::remote(int peer) {
  constexpr OpKind kind = OpKind::kRemote;
  open_handle(kind);
  checked_peer(kind, peer);
  if (peer == rank()) return local_;
  void* const pointer = pointer_to(peer);
  if (pointer == nullptr) {
    throw_value_error(traits(kind).name, "NCCL gives no pointer to the memory of rank " + std::to_string(peer) +
                                             " here: it is on another host, or behind no direct connection");
  }
  const std::vector<int64_t> shape = shape_of(bytes_[static_cast<size_t>(peer)]);
  // It lives as long as the window does: the tensor keeps that.
  auto self = c10::intrusive_ptr<WindowOnDevice>::unsafe_reclaim_from_nonowning(this);
  return at::from_blob(pointer, shape, [self](void*) {}, local_.options().requires_grad(false), local_.device());
}

void WindowOnDevice::close(bool together, const How& how) {
  const auto handle = handle_.exchange(nullptr);
  if (handle == nullptr) return;
  const ReleaseGil gil;
  // What a group that has failed or regrouped had registered goes with it; and NCCL deregisters together or not at all.
  if (!together || is_stale() || group_->first_error()) return;
  const c10::OptionalDeviceGuard here(local_.device());
  throw_if(device_->operations().wait_until_passed(OpKind::kWindowClose));
  const char here_too = 1;
  std::vector<char> all(bytes_.size());
  const auto deadline = Deadline::after(timeout_of(how));
  throw_if(backend_->tell_all(OpKind::kWindowClose, &here_too, sizeof(here_too), all.data(), deadline));
  throw_if(device_->operations().deregister_window(handle));
}

// --- Backend's part

WorkPtr Backend::on_window(OpKind kind, bool is_async, int64_t timeout_ns, at::Device device,
                           at::ArrayRef<at::Tensor> inputs, const WindowCall& call) {
  const Visit inside(visitors_);
  const std::chrono::milliseconds timeout((timeout_ns + kMillisecond - 1) / kMillisecond);
  WorkPtr work = on_device({kind, is_async, timeout}, device, {}, inputs, call);
  return is_async ? work : nullptr;
}

}  // namespace pycomms::c10d_backend

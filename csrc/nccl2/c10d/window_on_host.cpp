#include "nccl2/c10d/window_on_host.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <utility>

#include "nccl2/c10d/convert.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/python_hooks.h"
#include "nccl2/c10d/window_regions.h"

namespace pycomms::c10d_backend {
namespace {

using hostccl::WindowPiece;
using hostccl::WindowReach;

// What is copied in less time than it takes to give the GIL away and take it back.
constexpr size_t kQuickBytes = 16 << 10;

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

}  // namespace

WindowOnHost::WindowOnHost(std::shared_ptr<HostWindow> host, std::shared_ptr<void> memory, at::Tensor local, int slots,
                           Generation generation)
    : TensorWindow(host->communicator(), std::move(local), slots, std::move(generation)),
      memory_(std::move(memory)),
      host_(std::move(host)),
      queue_(std::make_shared<WindowQueue>(*group_)) {
  for (int rank = 0; rank < size(); ++rank) {
    reach_.push_back(attr_for(OpKind::kWindow, rank).reach);
    any_served_ |= reach_.back() == WindowReach::kServed;
  }
}

WindowOnHost::~WindowOnHost() {
  const ReleaseGil gil;
  static_cast<void>(host_->close(false, 0));  // what is on the stream ends
  queue_->end();
}

bool WindowOnHost::is_quick(int peer, size_t bytes) const {
  return bytes <= kQuickBytes && reach_[static_cast<size_t>(peer)] != WindowReach::kServed;
}

void WindowOnHost::check_tensor(OpKind kind, const char* name, const at::Tensor& tensor) const {
  check_window_tensor(traits(kind).name, name, tensor, local_);
}

void WindowOnHost::append_pieces(OpKind kind, const char* name, const Place& place, const at::Tensor& other,
                                 Pieces* pieces) const {
  if (const auto* offset = std::get_if<int64_t>(&place)) [[likely]] {
    pieces->push_back({bytes_before(kind, name, *offset), other.nbytes()});
    return;
  }
  append_region(traits(kind).name, name, local_, std::get<at::Tensor>(place), other,
                [pieces](const WindowPiece& piece) { pieces->push_back(piece); });
}

WindowPiece WindowOnHost::one(OpKind kind, int64_t offset) const {
  return {bytes_before(kind, "offset", offset), item_};
}

// --- running

template <typename Run>
TensorWindow::WorkPtr WindowOnHost::run(OpKind kind, const How& how, bool quick, TensorList outputs, TensorList inputs,
                                        Run&& operation) {
  check_current(kind);
  if (group_->was_forked()) throw_if(operation(timeout_of(how)));  // the threads behind a queue are not here
  if (how.is_async && !(quick && queue_->is_empty())) {
    return enqueue(kind, how, std::move(outputs), std::move(inputs), std::forward<Run>(operation));
  }
  if (!queue_->is_empty()) wait_for_queued(kind, how);
  Error error;
  if (quick) {
    error = operation(timeout_of(how));
  } else {
    const ReleaseGil gil;
    error = operation(timeout_of(how));
  }
  throw_if(std::move(error));
  if (!how.is_async) return nullptr;
  auto work = c10::make_intrusive<Work>(rank(), kind, std::move(outputs), nullptr);
  work->set_ended(0);
  return work;
}

TensorWindow::WorkPtr WindowOnHost::enqueue(OpKind kind, const How& how, TensorList outputs, TensorList inputs,
                                            Operation operation) {
  auto state = std::make_shared<TensorOp>(kind);
  for (const at::Tensor& tensor : inputs) state->keep(tensor.detach());  // whatever memory the caller gives his own
  for (const at::Tensor& tensor : outputs) state->keep(tensor.detach());
  auto work = c10::make_intrusive<Work>(rank(), kind, std::move(outputs), nullptr);
  work->follow(state);
  auto guarded = [group = group_, kind, timeout = timeout_of(how), operation = std::move(operation)]() -> Error {
    try {
      return operation(timeout);
    } catch (const std::exception& exception) {  // nothing may leave the stream's thread
      return window_error(*group, ErrorKind::kSystem, kind, text_of(exception));
    }
  };
  const Status queued = queue_->add(std::move(state), std::move(guarded));
  if (!queued.is_ok()) throw_error(window_error(*group_, ErrorKind::kSystem, kind, queued.message()));
  return work;
}

void WindowOnHost::wait_for_queued(OpKind kind, const How& how) {
  {
    const ReleaseGil gil;
    if (queue_->wait_until_empty(Deadline::after(timeout_of(how)), &interrupted)) return;
  }
  rethrow_pending_signal();
  throw_error(window_error(*group_, ErrorKind::kTimeout, kind,
                           "what was issued asynchronously before it has not ended in time"));
}

TensorWindow::WorkPtr WindowOnHost::run_several(OpKind kind, const How& how, bool quick, TensorList outputs,
                                                TensorList inputs, Operation operation) {
  return run(kind, how, quick, std::move(outputs), std::move(inputs), std::move(operation));
}

// --- data

TensorWindow::WorkPtr WindowOnHost::put(const at::Tensor& source, int peer, const Place& place,
                                        std::optional<int> signal, const How& how) {
  constexpr OpKind kind = OpKind::kPut;
  checked_peer(kind, peer);
  check_tensor(kind, "src", source);
  Pieces pieces;
  append_pieces(kind, "offset", place, source, &pieces);
  const at::Tensor from = source.contiguous();
  return run(kind, how, is_quick(peer, from.nbytes()), {}, {from},
             [host = host_, peer, signal, pieces = std::move(pieces), data = bytes_of(from)](int64_t timeout) {
               const hostccl::WindowSignal one{signal.value_or(0), hostccl::SignalChange::kAdd, 1};
               return host->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
                 return api.window_put(window, peer, pieces.data(), pieces.size(), data, signal ? &one : nullptr,
                                       timeout);
               });
             });
}

TensorWindow::WorkPtr WindowOnHost::get(const at::Tensor& destination, int peer, const Place& place, const How& how) {
  constexpr OpKind kind = OpKind::kGet;
  checked_peer(kind, peer);
  check_tensor(kind, "dst", destination);
  check_written(traits(kind).name, "dst", destination);
  Pieces pieces;
  append_pieces(kind, "offset", place, destination, &pieces);
  const at::Tensor to =
      destination.is_contiguous() ? destination : at::empty(destination.sizes(), destination.options());
  return run(kind, how, is_quick(peer, to.nbytes()), {destination}, {to},
             [host = host_, peer, pieces = std::move(pieces), to, destination](int64_t timeout) {
               Error error = host->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
                 return api.window_get(window, peer, pieces.data(), pieces.size(), to.data_ptr(), timeout);
               });
               if (!error && !to.is_same(destination)) copy_without_grad(destination, to);
               return error;
             });
}

// --- updates

TensorWindow::WorkPtr WindowOnHost::update(const at::Tensor& source, int peer, const Place& place, hostccl::WindowOp op,
                                           const at::Tensor& old, const How& how) {
  const OpKind kind = kind_of_update(old);
  checked_peer(kind, peer);
  check_tensor(kind, "src", source);
  Pieces pieces;
  append_pieces(kind, "offset", place, source, &pieces);
  const at::Tensor from = source.contiguous();
  TensorList outputs;
  if (old.defined()) {
    check_tensor(kind, "old", old);
    if (old.sizes() != source.sizes() || !old.is_contiguous()) {
      throw_value_error(traits(kind).name, "old is not one block with as many elements as src");
    }
    outputs.push_back(old);
  }
  return run(kind, how, is_quick(peer, from.nbytes()), outputs, {from},
             [host = host_, kind, peer, op, type = type_, pieces = std::move(pieces), data = bytes_of(from),
              before = old.defined() ? old.data_ptr() : nullptr](int64_t timeout) {
               return host->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
                 return api.window_update(window, peer, pieces.data(), pieces.size(), type, op, data, before, timeout);
               });
             });
}

void WindowOnHost::update_one(const void* operand, int peer, int64_t offset, hostccl::WindowOp op, void* old,
                              const How& how) {
  const OpKind kind = kind_of_update(op);
  checked_peer(kind, peer);
  const WindowPiece piece = one(kind, offset);
  run(kind, how, is_quick(peer, item_), {}, {}, [this, kind, peer, piece, op, operand, old](int64_t timeout) {
    return host_->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
      return api.window_update(window, peer, &piece, 1, type_, op, operand, old, timeout);
    });
  });
}

void WindowOnHost::compare_swap(const void* expected, const void* desired, int peer, int64_t offset, void* old,
                                const How& how) {
  constexpr OpKind kind = OpKind::kCompareSwap;
  checked_peer(kind, peer);
  const WindowPiece piece = one(kind, offset);
  run(kind, how, is_quick(peer, item_), {}, {}, [this, peer, piece, expected, desired, old](int64_t timeout) {
    return host_->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
      return api.window_compare_swap(window, peer, piece.offset, type_, expected, desired, old, timeout);
    });
  });
}

// --- completion, signals, locks

TensorWindow::WorkPtr WindowOnHost::flush(std::optional<int> peer, const How& how) {
  constexpr OpKind kind = OpKind::kFlush;
  const int whom = peer ? checked_peer(kind, *peer) : -1;
  const bool quick = !any_served_;
  return run(kind, how, quick, {}, {}, [host = host_, whom](int64_t timeout) {
    return host->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
      return api.window_flush(window, whom, timeout);
    });
  });
}

TensorWindow::WorkPtr WindowOnHost::signal(int peer, int slot, int64_t value, hostccl::SignalChange change,
                                           const How& how) {
  constexpr OpKind kind = OpKind::kSignal;
  checked_peer(kind, peer);
  return run(kind, how, is_quick(peer, 0), {}, {},
             [host = host_, peer, signal = hostccl::WindowSignal{slot, change, value}](int64_t timeout) {
               return host->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
                 return api.window_signal(window, peer, &signal, timeout);
               });
             });
}

TensorWindow::WorkPtr WindowOnHost::wait_signal(std::vector<int> peers, bool all_of, int slot, int64_t count,
                                                size_t* which, const How& how) {
  constexpr OpKind kind = OpKind::kWaitSignal;
  for (const int peer : peers) checked_peer(kind, peer);
  return run(kind, how, false, {}, {},
             [host = host_, peers = std::move(peers), all_of, slot, count, which](int64_t timeout) {
               return host->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
                 return api.window_wait_signal(window, peers.data(), peers.size(), all_of ? 1 : 0, slot, count, timeout,
                                               which);
               });
             });
}

int64_t WindowOnHost::read_signal(int peer, int slot) {
  constexpr OpKind kind = OpKind::kReadSignal;
  checked_peer(kind, peer);
  check_current(kind);
  int64_t value = 0;
  throw_if(host_->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
    return api.window_read_signal(window, peer, slot, &value);
  }));
  return value;
}

int WindowOnHost::lock(int peer, bool shared, const How& how) {
  constexpr OpKind kind = OpKind::kLock;
  checked_peer(kind, peer);
  int broken = -1;
  run(kind, how, false, {}, {}, [this, peer, shared, &broken](int64_t timeout) {
    return host_->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
      return api.window_lock(window, peer, shared ? 1 : 0, timeout, &broken);
    });
  });
  return broken;
}

void WindowOnHost::unlock(int peer, bool shared, const How& how) {
  constexpr OpKind kind = OpKind::kUnlock;
  checked_peer(kind, peer);
  run(kind, how, is_quick(peer, 0), {}, {}, [this, peer, shared](int64_t timeout) {
    return host_->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
      return api.window_unlock(window, peer, shared ? 1 : 0, timeout);
    });
  });
}

// --- memory, life

hostccl::WindowAttr WindowOnHost::attr(int peer) const {
  constexpr OpKind kind = OpKind::kAttr;
  checked_peer(kind, peer);
  check_current(kind);
  return attr_for(kind, peer);
}

hostccl::WindowAttr WindowOnHost::attr_for(OpKind kind, int peer) const {
  hostccl::WindowAttr attr{};
  throw_if(host_->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
    return api.window_attr(window, peer, &attr);
  }));
  return attr;
}

at::Tensor WindowOnHost::remote(int peer) {
  constexpr OpKind kind = OpKind::kRemote;
  checked_peer(kind, peer);
  check_current(kind);
  if (peer == rank()) return local_;
  const std::vector<int64_t> shape = shape_of(attr_for(kind, peer).bytes);
  void* data = nullptr;
  void* hold = nullptr;
  throw_if(host_->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
    return api.window_map(window, peer, &data, &hold);
  }));
  const auto unmap = group_->engine().windows.window_unmap;
  return at::from_blob(data, shape, [unmap, hold](void*) { unmap(hold); }, local_.options().requires_grad(false));
}

void WindowOnHost::close(bool together, const How& how) {
  if (is_closed()) return;
  const int64_t timeout = timeout_of(how);
  if (together && !is_stale()) {
    try {
      wait_for_queued(OpKind::kWindowClose, how);
    } catch (...) {  // it is closed all the same, which ends them
      const ReleaseGil gil;
      static_cast<void>(host_->close(false, timeout));
      throw;
    }
  }
  const ReleaseGil gil;
  throw_if(host_->close(together && !is_stale(), timeout));
}

}  // namespace pycomms::c10d_backend

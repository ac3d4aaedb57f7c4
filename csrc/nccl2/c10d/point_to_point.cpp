// Backend's sends and receives, and coalescing: every operation issued between start and end is covered by one Work.
#include "nccl2/c10d/frame.h"

namespace pycomms::c10d_backend {
namespace {

// What send and receive have in common; `peer` is checked by the caller where there is one.
Buffer to_message(const char* op, const at::Tensor& tensor, int tag) {
  if (tag < 0) throw_value_error(op, "the tag is negative: " + std::to_string(tag));
  return to_buffer(op, "tensor", tensor, Use::kMove);
}

}  // namespace

WorkPtr Backend::send(Tensors& tensors, int peer, int tag) {
  const Visit inside(visitors_);
  const at::Tensor& tensor = single("send", tensors);
  const Buffer buffer = to_message("send", tensor, tag);
  check_rank("send", "destination", peer, size_);
  if (tensor.is_cuda()) {
    return on_device(OpArgs{OpKind::kSend, true, kNoTimeout}.to_peer(peer, tag), tensor.device(), {tensor}, tensor,
                     [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
                       return engine.nccl.send(buffer.data, buffer.count, buffer.type, peer, comm, stream);
                     });
  }
  return request(OpKind::kSend, tensor, {.peer = peer, .tag = tag},
                 [&](const Engine& engine, CommHandle comm, StreamCallback callback, void* arg, hostccl::RecvStatus*) {
                   return engine.host.send_tagged(buffer.data, buffer.count, buffer.type, peer, tag, comm, callback,
                                                  arg);
                 });
}

WorkPtr Backend::recv(Tensors& tensors, int peer, int tag) {
  const Visit inside(visitors_);
  const at::Tensor& tensor = single("recv", tensors);
  const Buffer buffer = to_message("recv", tensor, tag);
  check_rank("recv", "source", peer, size_);
  if (tensor.is_cuda()) {
    return on_device(OpArgs{OpKind::kRecv, true, kNoTimeout}.to_peer(peer, tag), tensor.device(), {tensor}, tensor,
                     [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
                       return engine.nccl.recv(buffer.data, buffer.count, buffer.type, peer, comm, stream);
                     });
  }
  return request(
      OpKind::kRecv, tensor, {.peer = peer, .tag = tag},
      [&](const Engine& engine, CommHandle comm, StreamCallback callback, void* arg, hostccl::RecvStatus* status) {
        return engine.host.recv_tagged(buffer.data, buffer.count, buffer.type, peer, tag, comm, callback, arg, status);
      });
}

WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) {
  const Visit inside(visitors_);
  const at::Tensor& tensor = single("recv_any_source", tensors);
  const Buffer buffer = to_message("recv_any_source", tensor, tag);
  if (tensor.is_cuda()) {
    throw c10::NotImplementedError(
        "nccl2 recv: NCCL cannot receive from any source; name the source, or receive into a CPU tensor", nullptr);
  }
  return request(
      OpKind::kRecvAnySource, tensor, {.peer = kRecordedAnySource, .tag = tag},
      [&](const Engine& engine, CommHandle comm, StreamCallback callback, void* arg, hostccl::RecvStatus* status) {
        return engine.host.recv_tagged(buffer.data, buffer.count, buffer.type, hostccl::kAnySource, tag, comm, callback,
                                       arg, status);
      });
}

void Backend::startCoalescing() {
  const Visit inside(visitors_);
  if (is_in_block()) throw_value_error("startCoalescing", "a coalesced block is open already");
  const CallerScope scope = CallerScope::of_caller();
  block_thread_ = std::this_thread::get_id();
  if (is_regrouping_) {
    block_thread_ = std::thread::id();
    scope.forget_block();
    throw_value_error("startCoalescing", "the group is being regrouped: wait for its Work first");
  }
  block_ = std::make_shared<TensorOp>(OpKind::kCoalesced);
  block_scope_ = scope;
  block_scope_.forget_block_when_left();
  block_->set_open(true);
  if (!communicator_->was_forked()) together_ = std::make_unique<Reaper::Together>();
  communicator_->begin(block_);
}

// What is in the block goes on, and nothing is added to it any more.
std::shared_ptr<TensorOp> Backend::close_block(Error* failed) {
  const auto together = std::move(together_);
  auto block = std::exchange(block_, nullptr);
  block_scope_ = {};
  block_thread_.store({}, std::memory_order_relaxed);
  block->set_open(false);
  Error on_gpu_failed;
  if (const auto on_gpu = close_device_block(&on_gpu_failed); on_gpu != nullptr && block->has_parts()) {
    communicator_->add_part(block);  // a block with operations on both has ended when both have
    on_gpu->then(
        [communicator = communicator_, block](const OpState& ended) { communicator->end(*block, ended.error()); });
  }
  estimating_ = false;
  communicator_->end(*block, {});
  if (failed != nullptr) *failed = std::move(on_gpu_failed);
  return block;
}

WorkPtr Backend::endCoalescing() {
  const Visit inside(visitors_);
  if (block_ == nullptr && communicator_->state() == LifeState::kClosed) {  // aborted in its own block
    auto work = make_work(OpKind::kCoalesced, {}, {});
    work->set_ended(0);
    return work;
  }
  if (!is_in_block()) throw_value_error("endCoalescing", "no coalesced block is open");
  check_end_of_block("endCoalescing");
  auto work = make_work(OpKind::kCoalesced, {}, {});
  const auto on_gpu = device_block_;
  Error failed;
  if (on_gpu != nullptr && !block_->has_parts()) {
    close_block(&failed);
    throw_if(failed);
    work->follow(on_gpu);
    if (is_watched()) watch(on_gpu);
    return work;
  }
  if (is_watched()) watch(block_);
  work->follow(close_block(&failed));
  throw_if(failed);
  return work;
}

}  // namespace pycomms::c10d_backend

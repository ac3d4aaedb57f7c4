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
  const at::Tensor& tensor = single("send", tensors);
  const Buffer buffer = to_message("send", tensor, tag);
  check_rank("send", "destination", peer, size_);
  return request(OpKind::kSend, tensor,
                 [&](const Engine& engine, CommHandle comm, StreamCallback callback, void* arg, hostccl::RecvStatus*) {
                   return engine.host.send_tagged(buffer.data, buffer.count, buffer.type, peer, tag, comm, callback,
                                                  arg);
                 });
}

WorkPtr Backend::recv(Tensors& tensors, int peer, int tag) {
  const at::Tensor& tensor = single("recv", tensors);
  const Buffer buffer = to_message("recv", tensor, tag);
  check_rank("recv", "source", peer, size_);
  return request(
      OpKind::kRecv, tensor,
      [&](const Engine& engine, CommHandle comm, StreamCallback callback, void* arg, hostccl::RecvStatus* status) {
        return engine.host.recv_tagged(buffer.data, buffer.count, buffer.type, peer, tag, comm, callback, arg, status);
      });
}

WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) {
  const at::Tensor& tensor = single("recv_any_source", tensors);
  const Buffer buffer = to_message("recv_any_source", tensor, tag);
  return request(
      OpKind::kRecvAnySource, tensor,
      [&](const Engine& engine, CommHandle comm, StreamCallback callback, void* arg, hostccl::RecvStatus* status) {
        return engine.host.recv_tagged(buffer.data, buffer.count, buffer.type, hostccl::kAnySource, tag, comm, callback,
                                       arg, status);
      });
}

void Backend::startCoalescing() {
  if (is_in_block()) throw_value_error("startCoalescing", "a coalesced block is open already");
  block_ = std::make_shared<TensorOp>(OpKind::kCoalesced);
  block_scope_ = CallerScope::of_caller();
  block_->set_open(true);
  communicator_->begin(block_);
}

// What is in the block goes on, and nothing is added to it any more.
std::shared_ptr<TensorOp> Backend::close_block() {
  auto block = std::exchange(block_, nullptr);
  block_scope_ = {};
  block->set_open(false);
  communicator_->end(*block, {});
  return block;
}

WorkPtr Backend::endCoalescing() {
  if (!is_in_block()) throw_value_error("endCoalescing", "no coalesced block is open");
  auto work = make_work(OpKind::kCoalesced, {}, {});
  if (is_watched()) watch(block_);
  work->follow(close_block());
  return work;
}

}  // namespace pycomms::c10d_backend

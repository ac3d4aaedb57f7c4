// Backend's collectives on one tensor per rank: check, translate, hand to the frame.
#include "nccl2/c10d/frame.h"
#include "nccl2/c10d/shared_storage.h"

namespace pycomms::c10d_backend {

WorkPtr Backend::broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& opts) {
  const Visit inside(visitors_);
  const at::Tensor& tensor = single("broadcast", tensors);
  const Buffer buffer = to_buffer("broadcast", "tensor", tensor, Use::kMove);
  check_rank("broadcast", "root", opts.rootRank, size_);
  return collective(
      OpArgs{OpKind::kBroadcast, opts.asyncOp, opts.timeout, {}, rank_ == opts.rootRank}.at_root(opts.rootRank),
      {tensor}, tensors, [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
        return engine.nccl.broadcast(buffer.data, buffer.data, buffer.count, buffer.type,
                                     static_cast<int>(opts.rootRank), comm, stream);
      });
}

WorkPtr Backend::allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& opts) {
  const Visit inside(visitors_);
  const at::Tensor& tensor = single("all_reduce", tensors);
  if (tensor.is_sparse()) [[unlikely]]
    return allreduce_sparse(tensors, opts);
  const Buffer buffer = to_buffer("all_reduce", "tensor", tensor, Use::kReduce);
  Reduction reduction("all_reduce", opts.reduceOp, {tensor, tensor, Spread::kEverywhere, 0, rank_, size_});
  const SharedPlace shared = shared_place(tensor);
  return collective(OpArgs{OpKind::kAllReduce, opts.asyncOp, opts.timeout, reduction}.with(opts.reduceOp), {tensor},
                    tensors, [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
                      return reduction.with(engine, comm, stream, buffer.type, [&](RedOp op) {
                        if (shared) {
                          return engine.host.all_reduce_shared(buffer.data, buffer.count, buffer.type, op, shared.fd,
                                                               shared.offset, comm, stream);
                        }
                        return engine.nccl.all_reduce(buffer.data, buffer.data, buffer.count, buffer.type, op, comm,
                                                      stream);
                      });
                    });
}

WorkPtr Backend::allreduce_sparse(Tensors& tensors, const ::c10d::AllreduceOptions& opts) {
  const Visit inside(visitors_);
  const at::Tensor& tensor = single("all_reduce_sparse", tensors);
  if (!tensor.is_sparse() || !tensor.is_cpu())
    throw_value_error("all_reduce_sparse", "takes a sparse COO tensor on the CPU");
  if (opts.reduceOp != ::c10d::ReduceOp::SUM)
    throw_value_error("all_reduce_sparse", "sparse tensors can only be summed");
  if (to_data_type(tensor.scalar_type()) == kNoType) throw_type_error("all_reduce_sparse", "cannot reduce this type");
  if (checks_values()) check_values_of(OpKind::kAllReduceSparse, tensor._values());
  const int64_t timeout = timeout_ns(opts.timeout) + ephemeral_.total();
  auto work = make_work(OpKind::kAllReduceSparse, {tensor}, tensors);
  RecordedArgs recorded;
  recorded.reduction = c10d_backend::recorded(opts.reduceOp);
  // It runs beside the group's other operations, and has no place in their sequence.
  const recorder::Entry entry =
      record(*communicator_, {OpKind::kAllReduceSparse, recorded, timeout, opts.asyncOp, false, !opts.asyncOp, 0},
             tensors, {});
  if (!opts.asyncOp) {
    const Error error = lanes_->sparse().run(tensor, timeout);
    end_record(entry, error, false);
    throw_if(error);
    work->set_ended(communicator_->sequence());
    return work;
  }
  auto state = std::make_shared<TensorOp>(OpKind::kAllReduceSparse);
  state->record_end_in(entry);
  work->follow(state);
  communicator_->begin(state);
  lanes_->sparse().queue(
      tensor, timeout, [communicator = communicator_, state](const Error& error) { communicator->end(*state, error); });
  return work;
}

WorkPtr Backend::allreduce_coalesced(Tensors& tensors, const ::c10d::AllreduceCoalescedOptions& opts) {
  const Visit inside(visitors_);
  if (tensors.empty()) throw_value_error("all_reduce_coalesced", "needs at least one tensor");
  std::vector<Buffer> buffers;
  std::vector<Reduction> reductions;
  for (const at::Tensor& tensor : tensors) {
    buffers.push_back(to_buffer("all_reduce_coalesced", "tensor", tensor, Use::kReduce));
    reductions.emplace_back("all_reduce_coalesced", opts.reduceOp,
                            Reduced{tensor, tensor, Spread::kEverywhere, 0, rank_, size_});
  }
  return collective(OpArgs{OpKind::kAllReduceCoalesced, opts.asyncOp, opts.timeout, reductions}.with(opts.reduceOp),
                    {tensors.begin(), tensors.end()}, tensors,
                    grouped(tensors.size(), [&](size_t i, const Engine& engine, CommHandle comm, StreamHandle stream) {
                      const Buffer& buffer = buffers[i];
                      return reductions[i].with(engine, comm, stream, buffer.type, [&](RedOp op) {
                        return engine.nccl.all_reduce(buffer.data, buffer.data, buffer.count, buffer.type, op, comm,
                                                      stream);
                      });
                    }));
}

WorkPtr Backend::reduce(Tensors& tensors, const ::c10d::ReduceOptions& opts) {
  const Visit inside(visitors_);
  const at::Tensor& tensor = single("reduce", tensors);
  const Buffer buffer = to_buffer("reduce", "tensor", tensor, Use::kReduce);
  check_rank("reduce", "root", opts.rootRank, size_);
  const auto root = static_cast<int>(opts.rootRank);
  Reduction reduction("reduce", opts.reduceOp, {tensor, tensor, Spread::kAtRoot, root, rank_, size_});
  return collective(OpArgs{OpKind::kReduce, opts.asyncOp, opts.timeout, reduction}.with(opts.reduceOp).at_root(root),
                    {tensor}, tensors, [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
                      return reduction.with(engine, comm, stream, buffer.type, [&](RedOp op) {
                        return engine.nccl.reduce(buffer.data, buffer.data, buffer.count, buffer.type, op, root, comm,
                                                  stream);
                      });
                    });
}

// With a GPU in the group it is a barrier for that too; a group that has not touched one is not made to.
WorkPtr Backend::barrier(const ::c10d::BarrierOptions& opts) {
  const Visit inside(visitors_);
  if (opts.device.has_value() && opts.device->is_cuda()) return device_barrier(*opts.device, opts);
  if (const auto group = lanes_->device_if_made()) return device_barrier(group->device(), opts);
  return collective(
      {OpKind::kBarrier, opts.asyncOp, opts.timeout}, {}, {},
      [](const Engine& engine, CommHandle comm, StreamHandle stream) { return engine.host.barrier(comm, stream); });
}

}  // namespace pycomms::c10d_backend

// Backend's collectives with a piece for every rank: gather, scatter, all_gather, reduce_scatter, all_to_all.
#include "nccl2/c10d/frame.h"

namespace pycomms::c10d_backend {
namespace {

// The inner list of a list of lists, as c10d passes the tensors of one device.
at::ArrayRef<at::Tensor> single_list(const char* op, const TensorLists& lists) {
  if (lists.size() != 1) {
    throw_value_error(op, "takes one list of tensors per call, got " + std::to_string(lists.size()));
  }
  return lists[0];
}

TensorList as_list(at::ArrayRef<at::Tensor> tensors) { return {tensors.begin(), tensors.end()}; }

// The piece of this rank must be as large as what it exchanges.
void check_own_piece(const char* op, const Pieces& pieces, int rank, const Buffer& own) {
  if (pieces.counts[rank] == own.count) return;
  throw_value_error(op, "the list has room for " + std::to_string(pieces.counts[rank]) +
                            " elements at this rank's place (" + std::to_string(rank) + ") but the tensor has " +
                            std::to_string(own.count));
}

void check_even(const char* op, const Pieces& pieces) {
  if (!pieces.is_even) throw_value_error(op, "all tensors of the list must have the same size");
}

// Whether a list may be given to the engine as one block of memory. Where its tensors lie is each rank's own affair: our engine
// matches both forms of a call, NCCL takes them for two operations.
bool is_one_block(const Engine& engine, const Pieces& pieces) {
  return pieces.is_even && pieces.is_block && engine.is_host();
}

EngineResult call_all_gather(const Engine& engine, const Buffer& in, const Pieces& out, CommHandle comm,
                             StreamHandle stream) {
  if (is_one_block(engine, out)) return engine.nccl.all_gather(in.data, out.data[0], in.count, in.type, comm, stream);
  return engine.host.all_gather_v(in.data, out.data.data(), out.counts.data(), in.type, comm, stream);
}

EngineResult call_reduce_scatter(const Engine& engine, const Pieces& in, const Buffer& out, RedOp op, CommHandle comm,
                                 StreamHandle stream) {
  if (is_one_block(engine, in)) {
    return engine.nccl.reduce_scatter(in.data[0], out.data, out.count, out.type, op, comm, stream);
  }
  return engine.host.reduce_scatter_v(in.data.data(), out.data, in.counts.data(), out.type, op, comm, stream);
}

EngineResult call_all_to_all(const Engine& engine, const Pieces& in, const Pieces& out, CommHandle comm,
                             StreamHandle stream) {
  return engine.host.all_to_all_v(in.data.data(), in.counts.data(), out.data.data(), out.counts.data(), in.type, comm,
                                  stream);
}

}  // namespace

WorkPtr Backend::allgather(TensorLists& outputs, Tensors& inputs, const ::c10d::AllgatherOptions& opts) {
  const Visit inside(visitors_);
  const at::Tensor& input = single("all_gather", inputs);
  const Buffer in = to_buffer("all_gather", "input", input, Use::kMove);
  const auto list = single_list("all_gather", outputs);
  const Pieces out = to_pieces("all_gather", "output", list, input, size_, Use::kMove, Access::kWrite);
  check_own_piece("all_gather", out, rank_, in);
  return collective({OpKind::kAllGather, opts.asyncOp, opts.timeout}, as_list(list), inputs,
                    [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
                      return call_all_gather(engine, in, out, comm, stream);
                    });
}

WorkPtr Backend::_allgather_base(at::Tensor& output, at::Tensor& input, const ::c10d::AllgatherOptions& opts) {
  const Visit inside(visitors_);
  const Buffer in = to_buffer("all_gather_single", "input", input, Use::kMove);
  const Buffer out = to_buffer("all_gather_single", "output", output, Use::kMove);
  check_contiguous("all_gather_single", input);
  check_contiguous("all_gather_single", output);
  check_times("all_gather_single", "output", output, "input", input, size_);
  return collective({OpKind::kAllGatherSingle, opts.asyncOp, opts.timeout}, {output}, input,
                    [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
                      return engine.nccl.all_gather(in.data, out.data, in.count, in.type, comm, stream);
                    });
}

WorkPtr Backend::allgather_coalesced(TensorLists& outputs, Tensors& inputs, const ::c10d::AllgatherOptions& opts) {
  const Visit inside(visitors_);
  constexpr const char* kOp = "all_gather_coalesced";
  if (inputs.empty()) throw_value_error(kOp, "needs at least one tensor");
  if (outputs.size() != static_cast<size_t>(size_)) {
    throw_value_error(kOp, "needs one list of outputs per rank: got " + std::to_string(outputs.size()) + " for " +
                               std::to_string(size_) + " ranks");
  }
  for (const auto& list : outputs) {
    if (list.size() != inputs.size()) throw_value_error(kOp, "each list of outputs needs one tensor per input");
  }
  std::vector<Buffer> in;
  std::vector<Pieces> out;
  TensorList all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<at::Tensor> by_rank;
    for (const auto& list : outputs) by_rank.push_back(list[i]);
    in.push_back(to_buffer(kOp, "input", inputs[i], Use::kMove));
    out.push_back(to_pieces(kOp, "output", by_rank, inputs[i], size_, Use::kMove, Access::kWrite));
    check_own_piece(kOp, out.back(), rank_, in.back());
  }
  for (const auto& list : outputs) all.append(list.begin(), list.end());
  return collective({OpKind::kAllGatherCoalesced, opts.asyncOp, opts.timeout}, std::move(all), inputs,
                    grouped(inputs.size(), [&](size_t i, const Engine& engine, CommHandle comm, StreamHandle stream) {
                      return call_all_gather(engine, in[i], out[i], comm, stream);
                    }));
}

WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const ::c10d::AllgatherOptions& opts) {
  const Visit inside(visitors_);
  constexpr const char* kOp = "all_gather_single_coalesced";
  if (inputs.empty() || inputs.size() != outputs.size())
    throw_value_error(kOp, "needs one output per input, at least one");
  std::vector<Buffer> in;
  std::vector<Buffer> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(to_buffer(kOp, "input", inputs[i], Use::kMove));
    out.push_back(to_buffer(kOp, "output", outputs[i], Use::kMove));
    check_contiguous(kOp, inputs[i]);
    check_contiguous(kOp, outputs[i]);
    check_times(kOp, "output", outputs[i], "input", inputs[i], size_);
  }
  return collective({OpKind::kAllGatherSingleCoalesced, opts.asyncOp, opts.timeout}, as_list(outputs), inputs,
                    grouped(inputs.size(), [&](size_t i, const Engine& engine, CommHandle comm, StreamHandle stream) {
                      return engine.nccl.all_gather(in[i].data, out[i].data, in[i].count, in[i].type, comm, stream);
                    }));
}

WorkPtr Backend::gather(TensorLists& outputs, Tensors& inputs, const ::c10d::GatherOptions& opts) {
  const Visit inside(visitors_);
  check_rank("gather", "root", opts.rootRank, size_);
  const at::Tensor& input = single("gather", inputs);
  const Buffer in = to_buffer("gather", "input", input, Use::kMove);
  Pieces out;
  TensorList all;
  if (rank_ == opts.rootRank) {
    const auto list = single_list("gather", outputs);
    out = to_pieces("gather", "output", list, input, size_, Use::kMove, Access::kWrite);
    check_even("gather", out);
    check_own_piece("gather", out, rank_, in);
    all = as_list(list);
  } else if (!outputs.empty() && !(outputs.size() == 1 && outputs[0].empty())) {
    throw_value_error("gather", "requires empty output on non-root");
  }
  return collective(OpArgs{OpKind::kGather, opts.asyncOp, opts.timeout}.at_root(opts.rootRank), std::move(all), inputs,
                    [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
                      return engine.host.gather_list(in.data, out.data.data(), in.count, in.type,
                                                     static_cast<int>(opts.rootRank), comm, stream);
                    });
}

WorkPtr Backend::gather_into_tensor(at::Tensor& output, at::Tensor& input, const ::c10d::GatherOptions& opts) {
  const Visit inside(visitors_);
  check_rank("gather_single", "root", opts.rootRank, size_);
  const Buffer in = to_buffer("gather_single", "input", input, Use::kMove);
  check_contiguous("gather_single", input);
  void* out = nullptr;
  TensorList all;
  if (rank_ == opts.rootRank) {
    out = to_buffer("gather_single", "output", output, Use::kMove).data;
    check_contiguous("gather_single", output);
    check_times("gather_single", "output", output, "input", input, size_);
    all = {output};
  }
  return collective(OpArgs{OpKind::kGatherSingle, opts.asyncOp, opts.timeout}.at_root(opts.rootRank), std::move(all),
                    input, [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
                      return engine.nccl.gather(in.data, out, in.count, in.type, static_cast<int>(opts.rootRank), comm,
                                                stream);
                    });
}

WorkPtr Backend::scatter(Tensors& outputs, TensorLists& inputs, const ::c10d::ScatterOptions& opts) {
  const Visit inside(visitors_);
  check_rank("scatter", "root", opts.rootRank, size_);
  const at::Tensor& output = single("scatter", outputs);
  const Buffer out = to_buffer("scatter", "output", output, Use::kMove);
  Pieces in;
  at::ArrayRef<at::Tensor> list;
  if (rank_ == opts.rootRank) {
    list = single_list("scatter", inputs);
    in = to_pieces("scatter", "input", list, output, size_, Use::kMove, Access::kRead);
    check_even("scatter", in);
    check_own_piece("scatter", in, rank_, out);
  } else if (!inputs.empty() && !(inputs.size() == 1 && inputs[0].empty())) {
    throw_value_error("scatter", "requires empty input on non-root");
  }
  return collective(OpArgs{OpKind::kScatter, opts.asyncOp, opts.timeout}.at_root(opts.rootRank), {output}, list,
                    [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
                      return engine.host.scatter_list(in.data.data(), out.data, out.count, out.type,
                                                      static_cast<int>(opts.rootRank), comm, stream);
                    });
}

WorkPtr Backend::reduce_scatter(Tensors& outputs, TensorLists& inputs, const ::c10d::ReduceScatterOptions& opts) {
  const Visit inside(visitors_);
  const at::Tensor& output = single("reduce_scatter", outputs);
  const Buffer out = to_buffer("reduce_scatter", "output", output, Use::kReduce);
  const auto list = single_list("reduce_scatter", inputs);
  const Pieces in = to_pieces("reduce_scatter", "input", list, output, size_, Use::kReduce, Access::kRead);
  check_own_piece("reduce_scatter", in, rank_, out);
  Reduction reduction("reduce_scatter", opts.reduceOp, {list, output, Spread::kInPieces, 0, rank_, size_});
  return collective(OpArgs{OpKind::kReduceScatter, opts.asyncOp, opts.timeout, reduction}.with(opts.reduceOp), {output},
                    list, [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
                      return reduction.with(engine, comm, stream, out.type, [&](RedOp op) {
                        return call_reduce_scatter(engine, in, out, op, comm, stream);
                      });
                    });
}

WorkPtr Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input, const ::c10d::ReduceScatterOptions& opts) {
  const Visit inside(visitors_);
  constexpr const char* kOp = "reduce_scatter_single";
  const Buffer in = to_buffer(kOp, "input", input, Use::kReduce);
  const Buffer out = to_buffer(kOp, "output", output, Use::kReduce);
  check_contiguous(kOp, input);
  check_contiguous(kOp, output);
  check_times(kOp, "input", input, "output", output, size_);
  Reduction reduction(kOp, opts.reduceOp, {input, output, Spread::kInPieces, 0, rank_, size_});
  return collective(OpArgs{OpKind::kReduceScatterSingle, opts.asyncOp, opts.timeout, reduction}.with(opts.reduceOp),
                    {output}, input, [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
                      return reduction.with(engine, comm, stream, out.type, [&](RedOp op) {
                        return engine.nccl.reduce_scatter(in.data, out.data, out.count, out.type, op, comm, stream);
                      });
                    });
}

WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const ::c10d::ReduceScatterOptions& opts) {
  const Visit inside(visitors_);
  constexpr const char* kOp = "reduce_scatter_single_coalesced";
  if (inputs.empty() || inputs.size() != outputs.size())
    throw_value_error(kOp, "needs one output per input, at least one");
  std::vector<Buffer> in;
  std::vector<Buffer> out;
  std::vector<Reduction> reductions;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(to_buffer(kOp, "input", inputs[i], Use::kReduce));
    out.push_back(to_buffer(kOp, "output", outputs[i], Use::kReduce));
    check_contiguous(kOp, inputs[i]);
    check_contiguous(kOp, outputs[i]);
    check_times(kOp, "input", inputs[i], "output", outputs[i], size_);
    reductions.emplace_back(kOp, opts.reduceOp, Reduced{inputs[i], outputs[i], Spread::kInPieces, 0, rank_, size_});
  }
  return collective(
      OpArgs{OpKind::kReduceScatterSingleCoalesced, opts.asyncOp, opts.timeout, reductions}.with(opts.reduceOp),
      as_list(outputs), inputs,
      grouped(inputs.size(), [&](size_t i, const Engine& engine, CommHandle comm, StreamHandle stream) {
        return reductions[i].with(engine, comm, stream, out[i].type, [&](RedOp op) {
          return engine.nccl.reduce_scatter(in[i].data, out[i].data, out[i].count, out[i].type, op, comm, stream);
        });
      }));
}

WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs, const ::c10d::AllToAllOptions& opts) {
  const Visit inside(visitors_);
  if (inputs.empty()) throw_value_error("all_to_all", "needs one tensor per rank");
  const Pieces in = to_pieces("all_to_all", "input", inputs, inputs[0], size_, Use::kMove, Access::kRead);
  const Pieces out = to_pieces("all_to_all", "output", outputs, inputs[0], size_, Use::kMove, Access::kWrite);
  if (in.counts[rank_] != out.counts[rank_]) {
    throw_value_error("all_to_all", "this rank's own input and output tensors differ in size");
  }
  return collective({OpKind::kAllToAll, opts.asyncOp, opts.timeout}, as_list(outputs), inputs,
                    [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
                      return call_all_to_all(engine, in, out, comm, stream);
                    });
}

WorkPtr Backend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                               std::vector<int64_t>& input_splits, const ::c10d::AllToAllOptions& opts) {
  const Visit inside(visitors_);
  constexpr const char* kOp = "all_to_all_single";
  check_same_type(kOp, output, input);
  const Pieces in = split_rows(kOp, "input", input, input_splits, size_);
  const Pieces out = split_rows(kOp, "output", output, output_splits, size_);
  if (in.counts[rank_] != out.counts[rank_]) {
    throw_value_error(
        kOp, "this rank's own input and output pieces differ in size: " + std::to_string(in.counts[rank_]) + " and " +
                 std::to_string(out.counts[rank_]) + " elements");
  }
  const bool is_even = input_splits.empty() && output_splits.empty();
  return collective(OpArgs{OpKind::kAllToAllSingle, opts.asyncOp, opts.timeout}.in_splits(input_splits, output_splits),
                    {output}, input, [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
                      if (!is_even) return call_all_to_all(engine, in, out, comm, stream);
                      return engine.nccl.all_to_all(in.data[0], out.data[0], in.counts[0], in.type, comm, stream);
                    });
}

}  // namespace pycomms::c10d_backend

// put_v and get_v: an operation on several tensors is several calls of the engine, and what is wrong with one of them is found
// before the first.
#include <ATen/ops/empty_like.h>

#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/window_on_host.h"
#include "nccl2/c10d/window_regions.h"

namespace pycomms::c10d_backend {

struct WindowOnHost::Several {
  struct Part {
    std::byte* data;
    Pieces pieces;
  };
  std::vector<Part> parts;
  TensorList blocks;  // what the engine copies from or to
  size_t bytes = 0;
};

// name: of the argument that the tensors are. A block is the tensor itself, or, if that has gaps, has yet to get what is in it.
WindowOnHost::Several WindowOnHost::gather(OpKind kind, const char* name, const std::vector<at::Tensor>& tensors,
                                           int peer, const std::vector<Place>& places) const {
  const char* const op = traits(kind).name;
  checked_peer(kind, peer);
  check_same_length(op, name, tensors.size(), places.size());
  check_current(kind);
  const size_t bytes_there = attr_for(kind, peer).bytes;
  Several several;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    const std::string at = "[" + std::to_string(i) + "]";
    check_tensor(kind, (name + at).c_str(), tensor);
    several.blocks.push_back(tensor.is_contiguous() ? tensor : at::empty_like(tensor, at::MemoryFormat::Contiguous));
    several.bytes += tensor.nbytes();
    Pieces pieces;
    append_pieces(kind, ("offsets" + at).c_str(), places[i], tensor, &pieces);
    for (const hostccl::WindowPiece& piece : pieces) check_inside(op, piece, peer, bytes_there);
    several.parts.push_back({static_cast<std::byte*>(several.blocks.back().data_ptr()), std::move(pieces)});
  }
  return several;
}

TensorWindow::WorkPtr WindowOnHost::put_v(const std::vector<at::Tensor>& sources, int peer,
                                          const std::vector<Place>& places, std::optional<int> signal, const How& how) {
  constexpr OpKind kind = OpKind::kPutV;
  Several several = gather(kind, "srcs", sources, peer, places);
  if (signal && (*signal < 0 || *signal >= slots())) {
    throw_value_error(traits(kind).name, "signal: slot is " + std::to_string(*signal) +
                                             ", but the window has slots 0 to " + std::to_string(slots() - 1));
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!several.blocks[i].is_same(sources[i])) copy_without_grad(several.blocks[i], sources[i]);
  }
  return run_several(kind, how, is_quick(peer, several.bytes), {}, several.blocks,
                     [host = host_, peer, signal, parts = std::move(several.parts)](int64_t timeout) {
                       const hostccl::WindowSignal one{signal.value_or(0), hostccl::SignalChange::kAdd, 1};
                       return host->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
                         for (const Several::Part& part : parts) {
                           const EngineResult result = api.window_put(window, peer, part.pieces.data(),
                                                                      part.pieces.size(), part.data, nullptr, timeout);
                           if (result != nccl_abi::kSuccess) return result;
                         }
                         return signal ? api.window_signal(window, peer, &one, timeout) : nccl_abi::kSuccess;
                       });
                     });
}

TensorWindow::WorkPtr WindowOnHost::get_v(const std::vector<at::Tensor>& destinations, int peer,
                                          const std::vector<Place>& places, const How& how) {
  constexpr OpKind kind = OpKind::kGetV;
  Several several = gather(kind, "dsts", destinations, peer, places);
  for (size_t i = 0; i < destinations.size(); ++i) {
    check_written(traits(kind).name, ("dsts[" + std::to_string(i) + "]").c_str(), destinations[i]);
  }
  const TensorList outputs(destinations.begin(), destinations.end());
  return run_several(
      kind, how, is_quick(peer, several.bytes), outputs, several.blocks,
      [host = host_, peer, parts = std::move(several.parts), blocks = several.blocks, outputs](int64_t timeout) {
        Error error = host->call(kind, [&](const HostWindowApi& api, hostccl::WindowHandle window) {
          for (const Several::Part& part : parts) {
            const EngineResult result =
                api.window_get(window, peer, part.pieces.data(), part.pieces.size(), part.data, timeout);
            if (result != nccl_abi::kSuccess) return result;
          }
          return nccl_abi::kSuccess;
        });
        for (size_t i = 0; i < blocks.size() && !error; ++i) {
          if (!blocks[i].is_same(outputs[i])) copy_without_grad(outputs[i], blocks[i]);
        }
        return error;
      });
}

}  // namespace pycomms::c10d_backend

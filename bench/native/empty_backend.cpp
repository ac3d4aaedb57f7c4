// A c10d backend in which every operation is already done: calling it costs what torch.distributed itself costs, the
// floor under every backend's time. Compiled at bench time by bench/ranks/empty_backend.py.
// Any thread may call it. The old names (_allgather_base, ...) are overridden because every torch forwards to them.
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace {

using c10d::Work;
using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<Work>;

class DoneWork final : public Work {
 public:
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
};

class EmptyBackend final : public c10d::Backend {
 public:
  EmptyBackend(int rank, int size) : Backend(rank, size) {}

  const std::string getBackendName() const override { return "bench_empty"; }

  WorkPtr broadcast(Tensors&, const c10d::BroadcastOptions&) override { return done(); }
  WorkPtr allreduce(Tensors&, const c10d::AllreduceOptions&) override { return done(); }
  WorkPtr reduce(Tensors&, const c10d::ReduceOptions&) override { return done(); }
  WorkPtr _allgather_base(at::Tensor&, at::Tensor&, const c10d::AllgatherOptions&) override { return done(); }
  WorkPtr gather(std::vector<Tensors>&, Tensors&, const c10d::GatherOptions&) override { return done(); }
  WorkPtr scatter(Tensors&, std::vector<Tensors>&, const c10d::ScatterOptions&) override { return done(); }
  WorkPtr _reduce_scatter_base(at::Tensor&, at::Tensor&, const c10d::ReduceScatterOptions&) override { return done(); }
  WorkPtr alltoall_base(at::Tensor&, at::Tensor&, std::vector<int64_t>&, std::vector<int64_t>&,
                        const c10d::AllToAllOptions&) override {
    return done();
  }
  WorkPtr send(Tensors&, int, int) override { return done(); }
  WorkPtr recv(Tensors&, int, int) override { return done(); }
  WorkPtr barrier(const c10d::BarrierOptions&) override { return done(); }

 private:
  // A new Work each time, as every real backend makes.
  static WorkPtr done() { return c10::make_intrusive<DoneWork>(); }
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("create", [](const c10::intrusive_ptr<c10d::Store>&, int rank, int size, const py::object&) {
    return c10::static_intrusive_pointer_cast<c10d::Backend>(c10::make_intrusive<EmptyBackend>(rank, size));
  });
}

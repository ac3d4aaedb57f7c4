// pycomms._C.Window. Arguments are whatever Python gives: window_arguments.h makes of them what they have to be. Must not contain:
// logic.
#include "nccl2/c10d/window_binding.h"

#include "nccl2/c10d/backend.h"
#include "nccl2/c10d/python_timeout.h"
#include "nccl2/c10d/torch_window.h"
#include "nccl2/c10d/window_arguments.h"
#include "nccl2/c10d/window_self.h"

namespace py = pybind11;

namespace pycomms::c10d_backend {
namespace {

const char* reach_name(hostccl::WindowReach reach) {
  switch (reach) {
    case hostccl::WindowReach::kSelf:
      return "self";
    case hostccl::WindowReach::kMapped:
      return "mapped";
    case hostccl::WindowReach::kServed:
      return "served";
  }
  return "served";
}

py::object update_element(TensorWindow& self, const char* op, py::handle value, py::handle peer, py::handle offset,
                          hostccl::WindowOp what, py::handle timeout) {
  const Element operand = to_element(self, op, "value", value);
  Element old{};
  self.update_one(&operand, to_peer(self, op, peer), to_int64(op, "offset", offset), what, &old, to_how(op, timeout));
  return py::reinterpret_steal<py::object>(to_python(self, old));
}

}  // namespace

void bind_windows(py::module_& m) {
  using hostccl::WindowOp;
  using py::handle;
  const py::arg_v offset = py::arg_v("offset", 0);
  const py::arg_v async_op = py::arg_v("async_op", false);
  const py::arg_v timeout = py::arg_v("timeout", py::none());
  const py::arg_v signal = py::arg_v("signal", py::none());

  py::class_<TensorWindow, c10::intrusive_ptr<TensorWindow>>(m, "Window", "A one-sided window; see pycomms.rma.Window.",
                                                             py::dynamic_attr())
      .def(py::init([](Backend& backend, const std::optional<at::Tensor>& memory, int slots, const Timeout& limit,
                       const std::string& refusal) {
             const py::gil_scoped_release gil;
             return backend.open_window(memory.value_or(at::Tensor()), slots, limit.limit, refusal);
           }),
           py::arg("backend"), py::arg("memory"), py::arg("slots"), py::arg("timeout"), py::arg("refusal"))
      .def(
          "put",
          [](const Self& self, handle src, handle peer, handle at, handle slot, handle is_async, handle limit) {
            constexpr char op[] = "put";
            return self->put(to_tensor(op, "src", src), to_peer(*self, op, peer), to_place(op, at),
                             to_signal(*self, op, slot), to_how(op, is_async, limit));
          },
          py::arg("src"), py::arg("peer"), offset, py::kw_only(), signal, async_op, timeout)
      .def(
          "get",
          [](const Self& self, handle dst, handle peer, handle at, handle is_async, handle limit) {
            constexpr char op[] = "get";
            return self->get(to_tensor(op, "dst", dst), to_peer(*self, op, peer), to_place(op, at),
                             to_how(op, is_async, limit));
          },
          py::arg("dst"), py::arg("peer"), offset, py::kw_only(), async_op, timeout)
      .def(
          "put_v",
          [](const Self& self, handle srcs, handle peer, handle offsets, handle slot, handle is_async, handle limit) {
            constexpr char op[] = "put_v";
            return self->put_v(to_tensors(op, "srcs", srcs), to_peer(*self, op, peer), to_places(op, offsets),
                               to_signal(*self, op, slot), to_how(op, is_async, limit));
          },
          py::arg("srcs"), py::arg("peer"), py::arg("offsets"), py::kw_only(), signal, async_op, timeout)
      .def(
          "get_v",
          [](const Self& self, handle dsts, handle peer, handle offsets, handle is_async, handle limit) {
            constexpr char op[] = "get_v";
            return self->get_v(to_tensors(op, "dsts", dsts), to_peer(*self, op, peer), to_places(op, offsets),
                               to_how(op, is_async, limit));
          },
          py::arg("dsts"), py::arg("peer"), py::arg("offsets"), py::kw_only(), async_op, timeout)
      .def(
          "accumulate",
          [](const Self& self, handle src, handle peer, handle at, handle what, handle is_async, handle limit) {
            constexpr char op[] = "accumulate";
            return self->update(to_tensor(op, "src", src), to_peer(*self, op, peer), to_place(op, at),
                                to_window_op(op, what), {}, to_how(op, is_async, limit));
          },
          py::arg("src"), py::arg("peer"), offset, py::kw_only(), py::arg("op") = "sum", async_op, timeout)
      .def(
          "_get_accumulate",
          [](const Self& self, handle src, const at::Tensor& old, handle peer, handle at, handle what, handle is_async,
             handle limit) {
            constexpr char op[] = "get_accumulate";
            return self->update(to_tensor(op, "src", src), to_peer(*self, op, peer), to_place(op, at),
                                to_window_op(op, what, true), old, to_how(op, is_async, limit));
          },
          py::arg("src"), py::arg("old"), py::arg("peer"), offset, py::kw_only(), py::arg("op") = "sum", async_op,
          timeout)
      .def(
          "fetch_add",
          [](const Self& self, handle value, handle peer, handle at, handle limit) {
            return update_element(*self, "fetch_add", value, peer, at, WindowOp::kSum, limit);
          },
          py::arg("value"), py::arg("peer"), offset, py::kw_only(), timeout)
      .def(
          "swap",
          [](const Self& self, handle value, handle peer, handle at, handle limit) {
            return update_element(*self, "swap", value, peer, at, WindowOp::kReplace, limit);
          },
          py::arg("value"), py::arg("peer"), offset, py::kw_only(), timeout)
      .def(
          "compare_swap",
          [](const Self& self, handle expected, handle desired, handle peer, handle at, handle limit) {
            constexpr char op[] = "compare_swap";
            const Element before = to_element(*self, op, "expected", expected);
            const Element after = to_element(*self, op, "desired", desired);
            Element old{};
            self->compare_swap(&before, &after, to_peer(*self, op, peer), to_int64(op, "offset", at), &old,
                               to_how(op, limit));
            return py::reinterpret_steal<py::object>(to_python(*self, old));
          },
          py::arg("expected"), py::arg("desired"), py::arg("peer"), offset, py::kw_only(), timeout)
      .def(
          "flush",
          [](const Self& self, handle peer, handle is_async, handle limit) {
            return self->flush(to_peer_or_none(*self, "flush", peer), to_how("flush", is_async, limit));
          },
          py::arg("peer") = py::none(), py::kw_only(), async_op, timeout)
      .def(
          "signal",
          [](const Self& self, handle peer, handle slot, handle value, handle what, handle is_async, handle limit) {
            constexpr char op[] = "signal";
            return self->signal(to_peer(*self, op, peer), to_slot(*self, op, "slot", slot),
                                to_int64(op, "value", value), to_change(op, what), to_how(op, is_async, limit));
          },
          py::arg("peer"), py::arg("slot") = 0, py::arg("value") = 1, py::kw_only(), py::arg("op") = "add", async_op,
          timeout)
      .def(
          "_wait_signal",
          [](const Self& self, handle peers, bool all_of, handle slot, handle count, handle is_async,
             handle limit) -> py::object {
            constexpr char op[] = "wait_signal";
            const TensorWindow::How how = to_how(op, is_async, limit);
            size_t which = 0;
            auto work = self->wait_signal(to_peers(*self, op, peers), all_of, to_slot(*self, op, "slot", slot),
                                          to_int64(op, "count", count), how.is_async ? nullptr : &which, how);
            return how.is_async ? py::cast(work) : py::cast(which);
          },
          py::arg("peers"), py::arg("all_of"), py::arg("slot"), py::arg("count"), py::arg("async_op"),
          py::arg("timeout"))
      .def(
          "_read_signal",
          [](const Self& self, handle peer, handle slot) {
            constexpr char op[] = "read_signal";
            return self->read_signal(to_peer(*self, op, peer), to_slot(*self, op, "slot", slot));
          },
          py::arg("peer"), py::arg("slot"))
      .def(
          "_lock",
          [](const Self& self, handle peer, handle shared, handle limit) {
            constexpr char op[] = "lock";
            return self->lock(to_peer(*self, op, peer), to_flag(op, "shared", shared), to_how(op, limit));
          },
          py::arg("peer"), py::arg("shared"), py::arg("timeout"))
      .def(
          "_unlock",
          [](const Self& self, handle peer, handle shared) {
            constexpr char op[] = "unlock";
            self->unlock(to_peer(*self, op, peer), to_flag(op, "shared", shared), {});
          },
          py::arg("peer"), py::arg("shared"))
      .def(
          "remote", [](const Self& self, handle peer) { return self->remote(to_peer(*self, "remote", peer)); },
          py::arg("peer"))
      .def(
          "_attr",
          [](const Self& self, handle peer) {
            const hostccl::WindowAttr attr = self->attr(to_peer(*self, "attr", peer));
            return py::make_tuple(reach_name(attr.reach), attr.bytes, attr.is_closed);
          },
          py::arg("peer"))
      .def(
          "_close",
          [](const Self& self, bool together, handle limit) { self->close(together, to_how("close", limit)); },
          py::arg("together"), py::arg("timeout"))
      .def(
          "_wait_for_queued",
          [](const Self& self, handle limit) { self->wait_for_queued(OpKind::kFlush, to_how("flush_local", limit)); },
          timeout)
      .def_property_readonly("local", [](const Self& self) { return self->local(); })
      .def_property_readonly("rank", [](const Self& self) { return self->rank(); })
      .def_property_readonly("size", [](const Self& self) { return self->size(); })
      .def_property_readonly("slots", [](const Self& self) { return self->slots(); })
      .def_property_readonly("generation", [](const Self& self) { return self->generation(); })
      .def_property_readonly("is_stale", [](const Self& self) { return self->is_stale(); })
      .def_property_readonly("is_closed", [](const Self& self) { return self->is_closed(); });

#ifdef C10D_BACKEND_HAS_WINDOW
  py::class_<TorchWindow, ::c10d::Window, c10::intrusive_ptr<TorchWindow>>(m, "TorchWindow",
                                                                           "torch's interface to a window.")
      .def_property_readonly("window", &TorchWindow::window);
#endif
}

}  // namespace pycomms::c10d_backend

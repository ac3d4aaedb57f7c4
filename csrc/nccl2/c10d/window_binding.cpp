// pycomms._C.Window. Numbers come and go as Python's, in the type of the window. Must not contain: logic.
#include "nccl2/c10d/window_binding.h"

#include <torch/csrc/autograd/python_variable.h>

#include <map>
#include <string_view>

#include "nccl2/c10d/backend.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/python_timeout.h"
#include "nccl2/c10d/torch_window.h"
#include "nccl2/c10d/window_self.h"

namespace py = pybind11;

namespace pycomms::c10d_backend {
namespace {

// One element as the engine sees it.
union Element {
  int32_t i32;
  uint32_t u32;
  int64_t i64;
  uint64_t u64;
  float f32;
  double f64;
};

[[noreturn]] void throw_out_of_range(const char* op, const char* name, py::handle value, const char* type) {
  throw_value_error(op, std::string(name) + " is " + py::repr(value).cast<std::string>() + ", which is no " + type);
}

template <typename T>
T to_integer(const char* op, const char* name, py::handle value, const char* type) {
  const py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) {
    PyErr_Clear();
    throw_type_error(op, std::string(name) + " is " + py::repr(value).cast<std::string>() + ", expected an integer");
  }
  using Wide = std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>;
  const Wide wide = std::is_signed_v<T> ? static_cast<Wide>(PyLong_AsLongLong(index.ptr()))
                                        : static_cast<Wide>(PyLong_AsUnsignedLongLong(index.ptr()));
  if (PyErr_Occurred() != nullptr || static_cast<Wide>(static_cast<T>(wide)) != wide) {
    PyErr_Clear();
    throw_out_of_range(op, name, value, type);
  }
  return static_cast<T>(wide);
}

double to_double(const char* op, const char* name, py::handle value) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw_type_error(op, std::string(name) + " is " + py::repr(value).cast<std::string>() + ", expected a number");
  }
  return number;
}

Element to_element(const TensorWindow& window, const char* op, const char* name, py::handle value) {
  Element element{};
  switch (window.type()) {
    case nccl_abi::kInt32:
      element.i32 = to_integer<int32_t>(op, name, value, "int32");
      return element;
    case nccl_abi::kUint32:
      element.u32 = to_integer<uint32_t>(op, name, value, "uint32");
      return element;
    case nccl_abi::kInt64:
      element.i64 = to_integer<int64_t>(op, name, value, "int64");
      return element;
    case nccl_abi::kUint64:
      element.u64 = to_integer<uint64_t>(op, name, value, "uint64");
      return element;
    case nccl_abi::kFloat32:
      element.f32 = static_cast<float>(to_double(op, name, value));
      return element;
    case nccl_abi::kFloat64:
      element.f64 = to_double(op, name, value);
      return element;
    default:
      throw_type_error(op, std::string("the window holds ") + c10::toString(window.local().scalar_type()) +
                               ", expected int32, int64, uint32, uint64, float32 or float64");
  }
}

PyObject* to_python(const TensorWindow& window, const Element& element) {
  switch (window.type()) {
    case nccl_abi::kInt32:
      return PyLong_FromLong(element.i32);
    case nccl_abi::kUint32:
      return PyLong_FromUnsignedLong(element.u32);
    case nccl_abi::kInt64:
      return PyLong_FromLongLong(element.i64);
    case nccl_abi::kUint64:
      return PyLong_FromUnsignedLongLong(element.u64);
    case nccl_abi::kFloat32:
      return PyFloat_FromDouble(static_cast<double>(element.f32));
    default:
      return PyFloat_FromDouble(element.f64);
  }
}

// Also an array of another library, over the same memory.
at::Tensor to_tensor(const char* op, const char* name, py::handle value) {
  if (THPVariable_Check(value.ptr())) [[likely]]
    return THPVariable_Unpack(value.ptr());
  try {
    const py::object tensor =
        py::module_::import("pycomms.rma._memory").attr("as_tensor")(value, std::string_view(name).starts_with("dst"));
    return THPVariable_Unpack(tensor.ptr());
  } catch (py::error_already_set& error) {
    const std::string what = std::string(name) + ": " + py::str(error.value()).cast<std::string>();
    if (error.matches(PyExc_ValueError)) throw_value_error(op, what);
    throw_type_error(op, what);
  }
}

std::vector<at::Tensor> to_tensors(const char* op, const char* name, const py::sequence& values) {
  std::vector<at::Tensor> tensors;
  for (const py::handle value : values) tensors.push_back(to_tensor(op, name, value));
  return tensors;
}

Place to_place(const char* op, py::handle offset) {
  if (THPVariable_Check(offset.ptr())) return THPVariable_Unpack(offset.ptr());
  return to_integer<int64_t>(op, "offset", offset, "offset");
}

std::vector<Place> to_places(const char* op, const py::sequence& offsets) {
  std::vector<Place> places;
  for (const py::handle offset : offsets) places.push_back(to_place(op, offset));
  return places;
}

hostccl::WindowOp to_window_op(const char* op, const std::string& name) {
  using hostccl::WindowOp;
  static const std::map<std::string, WindowOp> kNames{{"sum", WindowOp::kSum},     {"prod", WindowOp::kProd},
                                                      {"max", WindowOp::kMax},     {"min", WindowOp::kMin},
                                                      {"band", WindowOp::kBitAnd}, {"bor", WindowOp::kBitOr},
                                                      {"bxor", WindowOp::kBitXor}, {"replace", WindowOp::kReplace}};
  const auto found = kNames.find(name);
  if (found != kNames.end()) return found->second;
  throw_value_error(op, "op is '" + name + "', expected sum, prod, max, min, band, bor, bxor or replace");
}

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

py::object update_element(TensorWindow& self, const char* op, py::handle value, int peer, int64_t offset,
                          hostccl::WindowOp what, const Timeout& timeout) {
  const Element operand = to_element(self, op, "value", value);
  Element old{};
  self.update_one(&operand, peer, offset, what, &old, {false, timeout.limit});
  return py::reinterpret_steal<py::object>(to_python(self, old));
}

}  // namespace

void bind_windows(py::module_& m) {
  using hostccl::WindowOp;
  const py::arg_v offset = py::arg_v("offset", 0);
  const py::arg_v async_op = py::arg_v("async_op", false);
  const py::arg_v timeout = py::arg_v("timeout", py::none());

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
          [](const Self& self, py::handle src, int peer, py::handle at, std::optional<int> signal, bool is_async,
             const Timeout& limit) {
            return self->put(to_tensor("put", "src", src), peer, to_place("put", at), signal, {is_async, limit.limit});
          },
          py::arg("src"), py::arg("peer"), offset, py::kw_only(), py::arg("signal") = py::none(), async_op, timeout)
      .def(
          "get",
          [](const Self& self, py::handle dst, int peer, py::handle at, bool is_async, const Timeout& limit) {
            return self->get(to_tensor("get", "dst", dst), peer, to_place("get", at), {is_async, limit.limit});
          },
          py::arg("dst"), py::arg("peer"), offset, py::kw_only(), async_op, timeout)
      .def(
          "put_v",
          [](const Self& self, const py::sequence& srcs, int peer, const py::sequence& offsets,
             std::optional<int> signal, bool is_async, const Timeout& limit) {
            return self->put_v(to_tensors("put_v", "srcs", srcs), peer, to_places("put_v", offsets), signal,
                               {is_async, limit.limit});
          },
          py::arg("srcs"), py::arg("peer"), py::arg("offsets"), py::kw_only(), py::arg("signal") = py::none(), async_op,
          timeout)
      .def(
          "get_v",
          [](const Self& self, const py::sequence& dsts, int peer, const py::sequence& offsets, bool is_async,
             const Timeout& limit) {
            return self->get_v(to_tensors("get_v", "dsts", dsts), peer, to_places("get_v", offsets),
                               {is_async, limit.limit});
          },
          py::arg("dsts"), py::arg("peer"), py::arg("offsets"), py::kw_only(), async_op, timeout)
      .def(
          "accumulate",
          [](const Self& self, py::handle src, int peer, py::handle at, const std::string& op, bool is_async,
             const Timeout& limit) {
            return self->update(to_tensor("accumulate", "src", src), peer, to_place("accumulate", at),
                                to_window_op("accumulate", op), {}, {is_async, limit.limit});
          },
          py::arg("src"), py::arg("peer"), offset, py::kw_only(), py::arg("op") = "sum", async_op, timeout)
      .def(
          "_get_accumulate",
          [](const Self& self, py::handle src, const at::Tensor& old, int peer, py::handle at, const std::string& op,
             bool is_async, const Timeout& limit) {
            const WindowOp what = op == "fetch" ? WindowOp::kFetch : to_window_op("get_accumulate", op);
            return self->update(to_tensor("get_accumulate", "src", src), peer, to_place("get_accumulate", at), what,
                                old, {is_async, limit.limit});
          },
          py::arg("src"), py::arg("old"), py::arg("peer"), offset, py::kw_only(), py::arg("op") = "sum", async_op,
          timeout)
      .def(
          "fetch_add",
          [](const Self& self, py::handle value, int peer, int64_t at, const Timeout& limit) {
            return update_element(*self, "fetch_add", value, peer, at, WindowOp::kSum, limit);
          },
          py::arg("value"), py::arg("peer"), offset, py::kw_only(), timeout)
      .def(
          "swap",
          [](const Self& self, py::handle value, int peer, int64_t at, const Timeout& limit) {
            return update_element(*self, "swap", value, peer, at, WindowOp::kReplace, limit);
          },
          py::arg("value"), py::arg("peer"), offset, py::kw_only(), timeout)
      .def(
          "compare_swap",
          [](const Self& self, py::handle expected, py::handle desired, int peer, int64_t at, const Timeout& limit) {
            const Element before = to_element(*self, "compare_swap", "expected", expected);
            const Element after = to_element(*self, "compare_swap", "desired", desired);
            Element old{};
            self->compare_swap(&before, &after, peer, at, &old, {false, limit.limit});
            return py::reinterpret_steal<py::object>(to_python(*self, old));
          },
          py::arg("expected"), py::arg("desired"), py::arg("peer"), offset, py::kw_only(), timeout)
      .def(
          "flush",
          [](const Self& self, std::optional<int> peer, bool is_async, const Timeout& limit) {
            return self->flush(peer, {is_async, limit.limit});
          },
          py::arg("peer") = py::none(), py::kw_only(), async_op, timeout)
      .def(
          "signal",
          [](const Self& self, int peer, int slot, int64_t value, const std::string& op, bool is_async,
             const Timeout& limit) {
            TORCH_CHECK_VALUE(op == "add" || op == "set", "signal: op is '", op, "', expected add or set");
            const auto change = op == "add" ? hostccl::SignalChange::kAdd : hostccl::SignalChange::kSet;
            return self->signal(peer, slot, value, change, {is_async, limit.limit});
          },
          py::arg("peer"), py::arg("slot") = 0, py::arg("value") = 1, py::kw_only(), py::arg("op") = "add", async_op,
          timeout)
      .def(
          "_wait_signal",
          [](const Self& self, std::vector<int> peers, bool all_of, int slot, int64_t count, bool is_async,
             const Timeout& limit) -> py::object {
            size_t which = 0;
            auto work = self->wait_signal(std::move(peers), all_of, slot, count, is_async ? nullptr : &which,
                                          {is_async, limit.limit});
            return is_async ? py::cast(work) : py::cast(which);
          },
          py::arg("peers"), py::arg("all_of"), py::arg("slot"), py::arg("count"), py::arg("async_op"),
          py::arg("timeout"))
      .def(
          "_read_signal", [](const Self& self, int peer, int slot) { return self->read_signal(peer, slot); },
          py::arg("peer"), py::arg("slot"))
      .def(
          "_lock",
          [](const Self& self, int peer, bool shared, const Timeout& limit) {
            return self->lock(peer, shared, {false, limit.limit});
          },
          py::arg("peer"), py::arg("shared"), py::arg("timeout"))
      .def(
          "_unlock", [](const Self& self, int peer, bool shared) { self->unlock(peer, shared, {}); }, py::arg("peer"),
          py::arg("shared"))
      .def(
          "remote", [](const Self& self, int peer) { return self->remote(peer); }, py::arg("peer"))
      .def(
          "_attr",
          [](const Self& self, int peer) {
            const hostccl::WindowAttr attr = self->attr(peer);
            return py::make_tuple(reach_name(attr.reach), attr.bytes);
          },
          py::arg("peer"))
      .def(
          "_close",
          [](const Self& self, bool together, const Timeout& limit) { self->close(together, {false, limit.limit}); },
          py::arg("together"), py::arg("timeout"))
      .def(
          "_wait_for_queued",
          [](const Self& self, const Timeout& limit) { self->wait_for_queued(OpKind::kFlush, {false, limit.limit}); },
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

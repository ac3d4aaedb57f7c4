// Exported: graphs, their launch, and user objects.

#include "graph.h"

#include <algorithm>

#include "abi.h"
#include "api/entry.h"
#include "api/resolve.h"
#include "submission.h"

namespace cuda_abi {
namespace {

using namespace cuemu;

void instantiate(GraphExecHandle* out, GraphHandle graph) {
  *out = handles().graph_execs.add(std::make_shared<GraphExec>(*handles().graphs.get(graph)));
}

std::vector<Node*> nodes_of(const Graph& graph, const GraphNodeHandle* nodes, size_t count) {
  std::vector<Node*> result;
  for (size_t i = 0; i < count; ++i) {
    auto* node = reinterpret_cast<Node*>(nodes[i]);
    require(graph.contains(node), kInvalidValue);
    result.push_back(node);
  }
  return result;
}

GraphNodeHandle handle_of(const Node* node) { return reinterpret_cast<GraphNodeHandle>(const_cast<Node*>(node)); }

}  // namespace

CUEMU_EXPORT Error cudaGraphCreate(GraphHandle* out, unsigned) {
  static Entry entry("cudaGraphCreate");
  return entry.call([&] { *out = handles().graphs.add(std::make_shared<Graph>()); });
}

CUEMU_EXPORT Error cudaGraphAddEmptyNode(GraphNodeHandle* out, GraphHandle handle, const GraphNodeHandle* dependencies,
                                         size_t count) {
  static Entry entry("cudaGraphAddEmptyNode");
  return entry.call([&] {
    const auto graph = handles().graphs.get(handle);
    *out = handle_of(graph->add({.what = "empty", .type = kEmptyNode}, nodes_of(*graph, dependencies, count)));
  });
}

CUEMU_EXPORT Error cudaGraphGetNodes(GraphHandle handle, GraphNodeHandle* nodes, size_t* count) {
  static Entry entry("cudaGraphGetNodes");
  return entry.call([&] {
    const auto graph = handles().graphs.get(handle);
    const size_t all = graph->nodes().size();
    for (size_t i = 0; nodes != nullptr && i < *count; ++i) {
      nodes[i] = i < all ? handle_of(graph->nodes()[i].get()) : nullptr;
    }
    *count = nodes == nullptr ? all : std::min(*count, all);
  });
}

CUEMU_EXPORT Error cudaGraphNodeGetType(GraphNodeHandle node, NodeType* type) {
  static Entry entry("cudaGraphNodeGetType");
  return entry.call([&] { *type = reinterpret_cast<const Node*>(node)->op.type; });
}

CUEMU_EXPORT Error cudaGraphNodeGetDependencies(GraphNodeHandle handle, GraphNodeHandle* nodes, void* edges,
                                                size_t* count) {
  static Entry entry("cudaGraphNodeGetDependencies");
  return entry.call([&] {
    require(edges == nullptr, kNotSupported);
    const auto& all = reinterpret_cast<const Node*>(handle)->dependencies;
    for (size_t i = 0; nodes != nullptr && i < *count; ++i) nodes[i] = i < all.size() ? handle_of(all[i]) : nullptr;
    *count = nodes == nullptr ? all.size() : std::min(*count, all.size());
  });
}

CUEMU_EXPORT Error cudaGraphDestroy(GraphHandle graph) {
  static Entry entry("cudaGraphDestroy");
  return entry.call_always([&] {
    handles().graphs.remove(graph);
    current_device().check();
  });
}

CUEMU_EXPORT Error cudaGraphInstantiate(GraphExecHandle* out, GraphHandle graph, unsigned long long) {
  static Entry entry("cudaGraphInstantiate");
  return entry.call([&] { instantiate(out, graph); });
}

CUEMU_EXPORT Error cudaGraphInstantiateWithFlags(GraphExecHandle* out, GraphHandle graph, unsigned long long) {
  static Entry entry("cudaGraphInstantiateWithFlags");
  return entry.call([&] { instantiate(out, graph); });
}

CUEMU_EXPORT Error cudaGraphUpload(GraphExecHandle exec, StreamHandle) {
  static Entry entry("cudaGraphUpload");
  return entry.call([&] { handles().graph_execs.get(exec); });
}

CUEMU_EXPORT Error cudaGraphExecDestroy(GraphExecHandle exec) {
  static Entry entry("cudaGraphExecDestroy");
  return entry.call_always([&] {
    handles().graph_execs.remove(exec);
    current_device().check();
  });
}

CUEMU_EXPORT Error cudaGraphLaunch(GraphExecHandle handle, StreamHandle stream_handle) {
  static Entry entry("cudaGraphLaunch");
  return entry.call([&] {
    const auto exec = handles().graph_execs.get(handle);
    const auto stream = stream_of(stream_handle);
    Op op;  // outlives the lock
    const std::lock_guard lock(submission_mutex());
    op = exec->launch();
    exec->last_launch = submit_locked(*stream, op, {exec->last_launch});
  });
}

CUEMU_EXPORT Error cudaUserObjectCreate(UserObjectHandle* out, void* arg, HostFn destroy, unsigned references,
                                        unsigned) {
  static Entry entry("cudaUserObjectCreate");
  return entry.call([&] {
    require(destroy != nullptr && references > 0, kInvalidValue);
    const auto object = std::make_shared<UserObject>(destroy, arg, references);
    *out = object->handle = handles().user_objects.add(object);
  });
}

CUEMU_EXPORT Error cudaUserObjectRetain(UserObjectHandle object, unsigned count) {
  static Entry entry("cudaUserObjectRetain");
  return entry.call([&] { handles().user_objects.get(object)->retain(count); });
}

CUEMU_EXPORT Error cudaUserObjectRelease(UserObjectHandle object, unsigned count) {
  static Entry entry("cudaUserObjectRelease");
  return entry.call_always([&] { handles().user_objects.get(object)->release(count); });
}

CUEMU_EXPORT Error cudaGraphRetainUserObject(GraphHandle graph, UserObjectHandle object, unsigned count,
                                             unsigned flags) {
  static Entry entry("cudaGraphRetainUserObject");
  return entry.call([&] {
    const auto holder = handles().graphs.get(graph);
    const auto held = handles().user_objects.get(object);
    if (flags != kUserObjectMove) held->retain(count);
    holder->hold(held, count);
  });
}

CUEMU_EXPORT Error cudaGraphReleaseUserObject(GraphHandle graph, UserObjectHandle object, unsigned count) {
  static Entry entry("cudaGraphReleaseUserObject");
  return entry.call_always([&] {
    require(handles().graphs.get(graph)->drop(handles().user_objects.get(object).get(), count), kInvalidValue);
  });
}

}  // namespace cuda_abi

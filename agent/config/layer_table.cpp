#include "agent/config/layer_table.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "agent/config/config.h"
#include "agent/config/reader.h"
#include "agent/config/values.h"
#include "gossip/clock.h"

namespace starling {
namespace {

constexpr double kFlopsMax = 1e18;
constexpr size_t kNameBytes = 128;
constexpr const char* kKeys = "model, forward, backward, layers";

struct Row {
  LayerFlops layer;
  std::optional<double> backward_s;  // in place of FLOPs
};

struct Document {
  std::string model = "model";
  std::optional<Duration> forward, backward;
  std::vector<Row> rows;
};

Duration read_time(const ConfigTree& tree) { return TimeValue{Duration::zero(), std::chrono::hours(24)}.read(tree); }

Row read_row(const ConfigTree& tree) {
  const std::string expected = "[params, FLOPs] or [params, time of backward] such as [9408, 1.5ms]";
  if (tree.kind != ConfigTree::Kind::kList || tree.children.size() != 2) throw_expected(expected, tree);
  Row row;
  row.layer.name = TextValue{kNameBytes}.read(scalar_tree(tree.key));
  row.layer.params = CountValue{1, uint64_t{1} << 40}.read(tree.children[0]);
  const std::string& second = scalar_text(tree.children[1], "FLOPs or a time");
  if (read_number<double>(second)) {
    row.layer.flops = NumberValue{0, kFlopsMax}.read(tree.children[1]);
  } else {
    row.backward_s = seconds(read_time(tree.children[1]));
  }
  return row;
}

void read_layers(const ConfigTree& tree, const std::string& path, Document& document) {
  if (tree.kind != ConfigTree::Kind::kMap) throw_expected("a map of layers, each NAME: [params, FLOPs]", tree);
  std::set<std::string> names;
  for (const ConfigTree& child : tree.children) {
    try {
      document.rows.push_back(read_row(child));
      if (!names.insert(child.key).second) throw std::invalid_argument("there is another one of this name above");
    } catch (const std::invalid_argument& error) {
      throw ConfigError(at_line(path, child.line) + ": layer '" + child.key + "': " + error.what());
    }
    if (document.rows.back().backward_s.has_value() != document.rows.front().backward_s.has_value()) {
      throw ConfigError(at_line(path, child.line) + ": layer '" + child.key + "': some layers have times and others " +
                        "FLOPs; give all of them the same");
    }
  }
}

void read_key(const ConfigTree& tree, const std::string& path, Document& document) {
  try {
    if (tree.key == "model")
      document.model = NameValue{64}.read(tree);
    else if (tree.key == "forward")
      document.forward = read_time(tree);
    else if (tree.key == "backward")
      document.backward = read_time(tree);
    else if (tree.key == "layers")
      read_layers(tree, path, document);
    else
      throw std::invalid_argument(std::string("unknown key; there are ") + kKeys);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(at_line(path, tree.line) + ": " + tree.key + ": " + error.what());
  }
}

Document read_document(const std::string& path) {
  const std::string text =
      read_text_file(path, "", "it is to hold the layers of a model, as configs/layers/resnet50.yaml does");
  const ConfigTree tree = parse_tree(text, path);
  if (tree.kind != ConfigTree::Kind::kMap) throw ConfigError(path + ": no table of layers; its keys are " + kKeys);
  Document document;
  for (const ConfigTree& child : tree.children) read_key(child, path, document);
  if (document.rows.empty()) throw ConfigError(path + ": no layers; write `layers:` with NAME: [params, FLOPs] below");
  return document;
}

}  // namespace

LayerTable layers_by_flops(const std::string& model, const std::vector<LayerFlops>& layers, double backward_s) {
  LayerTable table{.model = model, .forward_s = backward_s / 2, .backward_s = backward_s, .layers = {}};
  double sum = 0;
  for (const LayerFlops& layer : layers) sum += layer.flops;
  if (!(sum > 0)) throw std::runtime_error("no layer computes anything");
  for (const LayerFlops& layer : layers) {
    table.layers.push_back({layer.name, layer.params, backward_s * layer.flops / sum});
  }
  std::reverse(table.layers.begin(), table.layers.end());
  const std::string fault = describe_fault(table.layers);
  if (!fault.empty()) throw std::runtime_error(fault);
  return table;
}

LayerTable read_layer_table(const std::string& path, std::optional<Duration> backward) {
  const Document document = read_document(path);
  const bool has_times = document.rows.front().backward_s.has_value();
  std::vector<LayerFlops> layers;
  double sum_s = 0;
  for (const Row& row : document.rows) {
    layers.push_back(row.layer);
    if (has_times) layers.back().flops = *row.backward_s;  // shares of the sum
    sum_s += row.backward_s.value_or(0);
  }
  if (!backward) backward = document.backward;
  if (!backward && !has_times) {
    throw ConfigError(path +
                      ": the layers have FLOPs, but nothing says how long backward takes; add --backward 150ms, "
                      "or `backward: 150ms` in the file");
  }
  try {
    LayerTable table = layers_by_flops(document.model, layers, backward ? seconds(*backward) : sum_s);
    if (document.forward) table.forward_s = seconds(*document.forward);
    return table;
  } catch (const std::runtime_error& error) {
    throw ConfigError(path + ": " + error.what());
  }
}

}  // namespace starling

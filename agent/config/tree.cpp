// From YAML to a tree. The only file that sees yaml-cpp, and only its events: a tree of our own is built from them
// under bounds, so that no text, however foreign, can grow, loop or nest without end.
#include "agent/config/reader.h"

#include <sstream>
#include <utility>
#include <vector>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "gossip/net/text.h"

namespace starling {
namespace {

constexpr size_t kDepthMax = 8;
constexpr size_t kNodesMax = 4096;

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& where, bool has_lines) : where_(where), has_lines_(has_lines) {}
  ConfigTree take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) fail(mark, "a second document begins here; one file is one config");
  }
  void OnDocumentEnd() override {}
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { refuse_alias(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_alias(mark); }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check(mark, "", anchor);
    if (expects_key()) fail(mark, "a key is missing before ':'");
    add({ConfigTree::Kind::kNothing, {}, {}, {}, line_of(mark)});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    check(mark, tag, anchor);
    if (!expects_key()) return add({ConfigTree::Kind::kScalar, text, {}, {}, line_of(mark)});
    if (!is_one_line(text)) fail(mark, "a key must be one line of UTF-8 text without control characters");
    if (text == "<<") fail(mark, "YAML merge keys (<<) are not used here; write the values out");
    open_.back().key = text;
    open_.back().key_line = line_of(mark);
    open_.back().has_key = true;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, ConfigTree::Kind::kList);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, ConfigTree::Kind::kMap);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapEnd() override { end(); }

 private:
  struct Open {  // a list or map that has not ended yet
    ConfigTree tree;
    bool has_key = false;  // a map: the next event is the value of `key`
    std::string key;
    int key_line = 0;
  };

  int line_of(const YAML::Mark& mark) const { return has_lines_ ? mark.line + 1 : 0; }
  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) const {
    throw ConfigError(at_line(where_, line_of(mark)) + ": " + what);
  }
  [[noreturn]] void refuse_alias(const YAML::Mark& mark) const {
    fail(mark, "YAML anchors (&) and aliases (*) are not used here; write the value out, or put it in quotes");
  }
  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) refuse_alias(mark);
    if (!tag.empty() && tag != "?" && tag != "!") fail(mark, "YAML tags (!) are not used here; write the plain value");
    if (++nodes_ > kNodesMax) fail(mark, "more than " + std::to_string(kNodesMax) + " values; is this the right file?");
  }
  bool expects_key() const {
    return !open_.empty() && open_.back().tree.kind == ConfigTree::Kind::kMap && !open_.back().has_key;
  }
  void begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, ConfigTree::Kind kind) {
    check(mark, tag, anchor);
    if (expects_key()) fail(mark, "a key must be a word; is a bracket left open?");
    if (open_.size() >= kDepthMax) fail(mark, "nested more than " + std::to_string(kDepthMax) + " deep");
    open_.push_back({{kind, {}, {}, {}, line_of(mark)}});
  }
  void end() {
    ConfigTree tree = std::move(open_.back().tree);
    open_.pop_back();
    add(std::move(tree));
  }
  void add(ConfigTree tree) {
    if (open_.empty()) {
      root_ = std::move(tree);
      return;
    }
    Open& parent = open_.back();
    if (parent.has_key) {
      tree.key = std::move(parent.key);
      tree.line = parent.key_line;
      parent.has_key = false;
    }
    parent.tree.children.push_back(std::move(tree));
  }

  const std::string& where_;
  const bool has_lines_;
  ConfigTree root_;
  std::vector<Open> open_;
  size_t documents_ = 0, nodes_ = 0;
};

// `line` counts from 0; -1: not known.
bool is_indented_by_tab(const std::string& text, int line) {
  size_t from = 0;
  for (; line > 0; --line) {
    from = text.find('\n', from);
    if (from == std::string::npos) return false;
    ++from;
  }
  const size_t word = text.find_first_not_of(" \t", from);
  return line == 0 && text.substr(from, word - from).find('\t') != std::string::npos;
}

}  // namespace

std::string at_line(const std::string& where, int line) {
  return line > 0 ? where + ":" + std::to_string(line) : where;
}

ConfigTree parse_tree(const std::string& text, const std::string& where, bool has_lines) {
  std::istringstream stream(text);
  TreeBuilder builder(where, has_lines);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) continue;
  } catch (const YAML::Exception& error) {
    const std::string what = is_indented_by_tab(text, error.mark.line)
                                 ? "a tab stands before the first word, where YAML takes spaces only"
                                 : error.msg;
    throw ConfigError(at_line(where, has_lines ? error.mark.line + 1 : 0) + ": this is not YAML: " + what);
  }
  return builder.take();
}

}  // namespace starling

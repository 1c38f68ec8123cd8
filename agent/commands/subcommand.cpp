#include "agent/commands/subcommand.h"

#include <stdexcept>
#include <utility>

#include <CLI/CLI.hpp>

namespace starling {
namespace {

CLI::Option* add_option(CLI::App& command, const std::string& names, const std::string& doc, Subcommand::Read read) {
  const std::string name = names.substr(0, names.find(','));
  const auto checked = [name, read = std::move(read)](const std::string& text) {
    try {
      read(text);
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError(name, error.what());
    }
  };
  return command.add_option_function<std::string>(names, checked, doc)->type_name("");
}

}  // namespace

Subcommand::Subcommand(CLI::App& app, const char* name, const char* doc) : command_(app.add_subcommand(name, doc)) {}

void Subcommand::option(const std::string& names, const std::string& doc, Read read) {
  add_option(*command_, names, doc, std::move(read));
}

void Subcommand::repeatable(const std::string& names, const std::string& doc, Read read) {
  add_option(*command_, names, doc, std::move(read))->trigger_on_parse();
}

void Subcommand::text(const std::string& names, const std::string& doc, std::string& target) {
  add_option(*command_, names, doc, [&target](const std::string& text) { target = text; });
}

void Subcommand::flag(const std::string& names, const std::string& doc, bool& target) {
  command_->add_flag(names, target, doc);
}

void Subcommand::require(const std::string& name) { command_->get_option(name)->required(); }

void Subcommand::then(std::function<void()> parsed) { command_->callback(std::move(parsed)); }

}  // namespace starling

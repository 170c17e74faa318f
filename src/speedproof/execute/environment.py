"""What a session's environment has beyond the user's own."""

from __future__ import annotations

# Experiment trackers are switched off by their own switches: a trial is no experiment of the user's.
TRACKERS_OFF = {
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "COMET_MODE": "disabled",
    "COMET_AUTO_LOG_DISABLE": "1",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING": "false",
    "SWANLAB_MODE": "disabled",
    "AIM_ACCESS_MODE": "off",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}

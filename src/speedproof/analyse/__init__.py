"""From recorded events to a result. Pure: data in, data out."""

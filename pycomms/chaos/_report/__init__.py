"""What was found, for people and for programs: text, JSON, JUnit's XML, one HTML file."""
